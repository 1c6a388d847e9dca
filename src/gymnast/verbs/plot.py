"""`gymnast runs plot`: curves of several runs, in text or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from gymnast.core.errors import UserError
from gymnast.core.statistics import area_under_curve
from gymnast.metrics.catalogue import catalogue
from gymnast.report.charts.figure import save_charts
from gymnast.report.charts.model import Chart, Curve, thinned
from gymnast.report.charts.text import draw
from gymnast.report.run_facts import EVALUATION, RETURN
from gymnast.terminal.format import Cell, Column, heading, output, panel_width, table
from gymnast.verbs.compare.sides import CLOCKS, GRID, Bundle, Side, bundle, find_sides, labels, metric_name
from gymnast.verbs.extras import EXTRAS

SCORES = (RETURN, EVALUATION, "eval/best_mean_reward", "eval/stochastic_mean_reward", "verdict/mean")
NUMBERS = {"first": 3, "lowest": 2, "highest": 1, "last": 0, "mean height": 0}  # which go first from a narrow terminal
PICTURES = (".png", ".svg", ".pdf")

Panel = tuple[str, dict[str, Bundle], float | None]  # metric, side's label: its curve, threshold


def plot_runs(
    refs: Sequence[str],
    runs_dir: Path,
    metrics: Sequence[str],
    x: str,
    group: str,
    out: Path | None,
    text: bool,
    as_json: bool,
) -> dict[str, Any]:
    if out is not None:
        _check_picture(out)
    sides = find_sides(refs, runs_dir, group)
    names = [metric_name(name, sides) for name in metrics] or [_usual_metric(sides)]
    clock, unit = CLOCKS[x]
    panels, notes = [], _notes(sides)
    for metric in dict.fromkeys(names):
        curves = {}
        for label, side in zip(labels(sides), sides, strict=True):
            found = [facts.curve(metric, clock) for facts in side.runs]
            notes += [f"{f.token} has no {metric}" for f, points in zip(side.runs, found, strict=True) if not points]
            if (together := bundle(found)) is not None:
                curves[label] = together
        panels.append((metric, curves, _level(metric, sides)))
    notes = list(dict.fromkeys(notes))
    if out is not None:
        save_charts(out, [_chart(panel, unit) for panel in panels])
    if not as_json and (text or out is None):
        _print(panels, unit)
    if not as_json:
        console = output()
        for line in [*notes, *([f"wrote {out}"] if out is not None else [])]:
            console.print(Text(line, style="dim"), soft_wrap=True)
    return {
        "x": x,
        "panels": [_json(panel) for panel in panels],
        "notes": notes,
        "out": None if out is None else str(out),
    }


def _check_picture(path: Path) -> None:
    """What would fail at the end is told at the beginning."""
    if path.suffix not in PICTURES:
        raise UserError(f"--out {path}: must end in one of {', '.join(PICTURES)}.")
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {str(path.parent)!r}.")
    if not EXTRAS["plot"].installed:
        raise UserError(f"--out needs matplotlib, which is not installed. Run: {EXTRAS['plot'].command}")


def _usual_metric(sides: Sequence[Side]) -> str:
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


def _level(metric: str, sides: Sequence[Side]) -> float | None:
    """What counts as solved, where it is the same for all."""
    levels = {facts.threshold for side in sides for facts in side.runs}
    return levels.pop() if metric in SCORES and len(levels) == 1 else None


def _notes(sides: Sequence[Side]) -> list[str]:
    runs = [facts for side in sides for facts in side.runs]
    envs = list(dict.fromkeys(facts.info.env for facts in runs))
    notes = [f"{facts.token} is still being trained" for facts in runs if facts.live]
    if len(envs) > 1:
        notes.append(f"runs of different envs ({', '.join(envs)}): their scores do not compare")
    if any(len(side.runs) > 1 for side in sides):
        notes.append("several runs: interquartile mean, 95 % interval; one that ended keeps its last value")
    return notes


def _chart(panel: Panel, unit: str) -> Chart:
    metric, curves, level = panel
    drawn = (Curve(name, found.line, band=found.band, runs=found.runs) for name, found in curves.items())
    return Chart(metric, tuple(drawn), level, "" if level is None else f"solved at {level:g}", unit)


def _print(panels: Sequence[Panel], unit: str) -> None:
    console = output()
    for panel in panels:
        metric, curves, _ = panel
        for line in draw(_chart(panel, unit), panel_width(console), height=14) or [heading(metric)]:
            console.print(line, soft_wrap=True)
        columns = [Column("", wraps=20), Column("runs", right=True)]
        columns += [Column(title, right=True, drop=drop) for title, drop in NUMBERS.items()]
        console.print(table(console, columns, [_row(metric, name, found) for name, found in curves.items()]))
        console.print()


def _row(metric: str, name: str, found: Bundle) -> list[Cell]:
    text, values = catalogue().get(metric).text, [value for _, value in found.line]
    last = text(values[-1])
    if found.band:
        last += f" [{text(found.band[-1][1])}, {text(found.band[-1][2])}]"
    numbers = [text(values[0]), text(min(values)), text(max(values)), last, text(area_under_curve(found.line))]
    return [name, str(len(found.runs) or 1), *numbers]


def _json(panel: Panel) -> dict[str, Any]:
    metric, curves, level = panel
    sides = {
        name: {"runs": len(found.runs) or 1, "line": thinned(found.line, GRID), "band": found.band}
        for name, found in curves.items()
    }
    return {"metric": metric, "threshold": level, "sides": sides}
