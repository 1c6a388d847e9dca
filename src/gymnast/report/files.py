"""The files of a run and what each of them is."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gymnast.core.errors import UserError
from gymnast.core.typed import Count, read_typed
from gymnast.report.run_facts import EVALUATION, RETURN, RunFacts


class _Part(TypedDict):
    step: Count


class _Video(TypedDict):
    parts: list[_Part]


VIDEO = TypeAdapter(_Video)
KNOWN = {
    "report.md": "this page",
    "report.html": "this page with pictures",
    "config.yaml": "every setting",
    "metrics.jsonl": "every row of metrics",
    "alerts.json": "what its rows say is wrong",
    "diagnostics.jsonl": "histograms, observations, actions and layers, every log.diagnostics steps",
    "log.txt": "notices and warnings with their time",
    "run.json": "what and how it went",
}


def files_of(facts: RunFacts) -> list[tuple[str, str]]:
    """(path in the run's folder, what it is), of those that are there."""
    folder = facts.run.path
    found = [(name, what) for name, what in KNOWN.items() if name == "report.md" or os.path.isfile(folder / name)]
    for item in facts.checkpoints:
        scores = {"evaluation": item.metrics.get(EVALUATION), "training return": item.metrics.get(RETURN)}
        said = [f"{name} {value:,.2f}" for name, value in scores.items() if value is not None]
        what = f"broken: {item.problem}" if item.problem else ", ".join([f"agent at {item.step:,} steps", *said])
        found.append((item.path.relative_to(folder).as_posix(), what))
        steps = item.path.with_suffix(".csv")
        if os.path.isfile(steps):
            found.append((steps.relative_to(folder).as_posix(), "some of the steps before it"))
    return found


def videos_of(facts: RunFacts) -> list[tuple[str, str]]:
    return [(video.relative_to(facts.run.path).as_posix(), _about_video(video)) for video in facts.videos]


def _about_video(path: Path) -> str:
    """By the JSON of the same name, where there is one that can be read."""
    try:
        parts = read_typed(path.with_suffix(".json"), VIDEO)["parts"]
    except UserError:
        return "video"
    steps = ", ".join(f"{part['step']:,}" for part in parts)
    return f"video of the agent at {steps} steps"
