"""One cell of a sweep, in a worker: a training up to some steps, that goes on exactly where an earlier part ended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.core.files import write_atomic
from gymnast.judge.evidence import NOTHING_SEEN
from gymnast.judge.verdict import EvalRequest
from gymnast.metrics.clock import TrainingTime
from gymnast.runs import checkpoint
from gymnast.runs.folder import Run
from gymnast.runs.saved_agent import init_agent_from
from gymnast.sinks.jsonl import JsonlSink, read_metrics
from gymnast.training.build import build
from gymnast.training.record import new_run, record
from gymnast.training.rows import Row
from gymnast.training.state import restore
from gymnast.verbs.sweep.store import INIT

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel
    from gymnast.training.state import TrainState


class Watch:
    """The story of a cell from its rows; ends it after so many steps."""

    def __init__(self, until: int) -> None:
        self.until = until
        self.time = TrainingTime()
        self.steps = 0
        self.curve: list[tuple[int, float]] = []

    def add(self, row: Row) -> bool:
        """Whether there was an evaluation in it."""
        self.time.add(row)
        self.steps = int(row["time/total_timesteps"])
        evaluated = "eval/mean_reward" in row
        if evaluated:
            self.curve.append((self.steps, row["eval/mean_reward"]))
        return evaluated

    @property
    def story(self) -> dict[str, Any]:
        return {"steps": self.steps, "seconds": self.time.seconds, "curve": self.curve}


def run(channel: Channel, config: dict[str, Any], steps: int, folder: str, **about: Any) -> dict[str, Any]:
    """Trains until `steps`. Every row is an event that has all of the story so far. `about`: more for run.json."""
    checked, place, watch = configs.validate(config), Path(folder), Watch(steps)
    session, cell = open_cell(checked, place, about)
    if (score := first_score(session, place)) is not None:
        watch.curve.append((0, score))
    for row in read_metrics(cell.metrics_path):
        watch.add(row)

    def observe(row: Row) -> bool:
        watch.add(row)
        channel.event(**watch.story)
        return watch.steps < steps

    final = None
    try:
        if watch.steps < steps:
            result = record(session, cell, quiet=True, observer=observe)
            if result.stop_reason == "interrupted":
                raise UserError("interrupted before its end.")
            final = None if result.verdict is None else result.verdict.evaluation.mean
    finally:
        session.close()
    return watch.story | {"final": final}


def open_cell(config: configs.RunConfig, folder: Path, about: dict[str, Any]) -> tuple[TrainState, Run]:
    """Where its last checkpoint left off, if there is one in the folder; else from the start, or from the checkpoint
    `init` there."""
    for path in folder.glob("[!.]*/checkpoints/last.safetensors"):
        cell, saved = Run.open(path.parents[1]), checkpoint.load(path)
        session = build(config, None)
        restore(session, saved.tensors, saved.state)
        for rows in (cell.metrics_path, cell.diagnostics_path):
            JsonlSink.truncate(rows, session.counters.env_steps)
        return session, cell
    for left in folder.glob("*/"):  # of a process that was killed before its first checkpoint
        shutil.rmtree(left, ignore_errors=True)
    session = build(config, None)
    if (init := folder / INIT).is_file():
        saved = checkpoint.load(init)
        taken, _ = init_agent_from(session.agent, saved.agent, saved.env_id == config.env.id)
        if not taken:
            raise UserError("no layer of the checkpoint of --from fits this agent by name and shape.")
    return session, new_run(config, None, folder, **about)


def first_score(session: TrainState, folder: Path) -> float | None:
    """Of the agent before its first step, where every curve begins; None where an episode may never end. Kept in a
    file, since the agent changes."""
    path = folder / "first_score"
    if not path.is_file():
        if session.judge.endless:
            return None
        score = session.judge.court.examine(EvalRequest(0, 0, (), NOTHING_SEEN), None).score
        write_atomic(path, repr(score).encode())
    return float(path.read_text())
