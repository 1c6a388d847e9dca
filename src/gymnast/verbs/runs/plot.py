"""`gymnast runs plot`: curves of several runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.files import write_atomic
from gymnast.report.charts.model import Chart, Level, goals, thinned
from gymnast.report.run_facts import EVALUATION, RETURN
from gymnast.verbs.extras import PICTURES, check_file, check_picture
from gymnast.verbs.runs.sides import CLOCKS, GRID, Side, find_sides, labels, mean_curve, metric_name

NUMBERS = ".csv"
SCORES = (RETURN, EVALUATION, "eval/best_mean_reward", "eval/stochastic_mean_reward", "verdict/mean")


@dataclass(frozen=True)
class Plot:
    x: str
    title: str  # the env
    charts: list[Chart]  # one a metric, whose name is the title
    notes: list[str]
    out: Path | None  # the picture that was written
    text: bool  # whether the charts are shown as text

    def to_json(self) -> dict[str, Any]:
        panels = []
        for chart in self.charts:
            known = {level.name.partition(" ")[0]: level.value for level in chart.levels}
            of = {"metric": chart.title, "threshold": known.get("solved"), "target": known.get("target")}
            panels.append(of | {"sides": _sides(chart)})
        return {"x": self.x, "title": self.title, "panels": panels, "notes": self.notes, "out": self.out}


def _sides(chart: Chart) -> dict[str, Any]:
    return {
        curve.name: {"runs": len(curve.runs) or 1, "line": thinned(curve.points, GRID), "band": curve.band}
        for curve in chart.curves
    }


def plot_runs(
    refs: Sequence[str],
    runs_dir: Path,
    metrics: Sequence[str],
    x: str,
    group: str,
    out: Path | None,
    text: bool,
    names: Sequence[str] = (),
) -> Plot:
    """`text`: the charts as text also where a file is written. `names`: of the curves, in their order."""
    if out is not None and out.suffix == NUMBERS:
        check_file("--out", out, [NUMBERS])
    elif out is not None:
        check_file("--out", out, [*PICTURES, NUMBERS])
        check_picture("--out", out)
    sides = find_sides(refs, runs_dir, group)
    if names and (len(names) != len(sides) or len(set(names)) < len(names)):
        number = f"{len(sides)} curve{'s' * (len(sides) != 1)}"
        grouped = (
            " Runs that differ only in the seed are one curve: --group none draws each." if group != "none" else ""
        )
        raise UserError(f"--label: {len(names)} for {number}. Give each curve one label, in order.{grouped}")
    titles = list(names) or labels(sides)
    chosen = [metric_name(name, sides) for name in metrics] or [usual_metric(sides)]
    clock, unit = CLOCKS[x]
    charts, notes = [], _notes(sides)
    for metric in dict.fromkeys(chosen):
        curves = []
        for label, side in zip(titles, sides, strict=True):
            found = [facts.curve(metric, clock) for facts in side.runs]
            notes += [f"{f.token} has no {metric}" for f, points in zip(side.runs, found, strict=True) if not points]
            if (curve := mean_curve(label, found)) is not None:
                curves.append(curve)
        charts.append(Chart(metric, tuple(curves), _levels(metric, sides), unit))
    title = ", ".join(dict.fromkeys(env for side in sides for env in side.envs))
    if out is not None and out.suffix == NUMBERS:
        write_atomic(out, numbers_of(charts, x).encode())
    elif out is not None:
        from gymnast.report.charts.figure import save_charts

        save_charts(out, charts, title)
    return Plot(x, title, charts, list(dict.fromkeys(notes)), out, text or out is None)


def numbers_of(charts: Sequence[Chart], x: str) -> str:
    """The curves as CSV: a line for each point, with the ends of its interval where there are several runs."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["metric", "label", "runs", x, "value", "low", "high"])
    for chart in charts:
        for curve in chart.curves:
            about, ends = [chart.title, curve.name, len(curve.runs) or 1], {at: edges for at, *edges in curve.band}
            for at, value in curve.points:
                table.writerow([*about, at, value, *ends.get(at, ("", ""))])
    return file.getvalue()


def usual_metric(sides: Sequence[Side]) -> str:
    """Evaluations, where every run has two of them; else training returns."""
    runs = [facts for side in sides for facts in side.runs]
    if all(len(facts.curve(EVALUATION)) > 1 for facts in runs):
        return EVALUATION
    if any(RETURN in facts.latest for facts in runs):
        return RETURN
    raise UserError(
        f"no return to plot: {', '.join(facts.token for facts in runs)} "
        f"{'have' if len(runs) > 1 else 'has'} finished no episode yet. Name a --metric."
    )


def _levels(metric: str, sides: Sequence[Side]) -> tuple[Level, ...]:
    """What counts as solved and the target, where it is the same for all."""
    found = {goals(facts.threshold, facts.goal) for side in sides for facts in side.runs}
    return found.pop() if metric in SCORES and len(found) == 1 else ()


def _notes(sides: Sequence[Side]) -> list[str]:
    runs = [facts for side in sides for facts in side.runs]
    envs = list(dict.fromkeys(facts.info.env for facts in runs))
    notes = [f"{facts.token} is still being trained" for facts in runs if facts.live]
    notes += [note for side in sides for note in side.notes]
    if len(envs) > 1:
        notes.append(f"runs of different envs ({', '.join(envs)}): their scores do not compare")
    if any(len(side.runs) > 1 for side in sides):
        notes.append("several runs: interquartile mean, 95 % interval; one that ended keeps its last value")
    return notes
