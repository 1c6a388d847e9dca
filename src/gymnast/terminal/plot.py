"""`gymnast runs plot` for people: charts in text, with their numbers."""

from __future__ import annotations

from rich.text import Text

from gymnast.core.statistics import area_under_curve
from gymnast.metrics.catalogue import catalogue
from gymnast.report.charts.model import Curve
from gymnast.report.charts.text import draw
from gymnast.terminal.format import Cell, Column, heading, output, panel_width, table
from gymnast.verbs.runs.plot import Plot

COLUMNS = (
    Column("", wraps=20),
    Column("runs", right=True),
    Column("first", right=True, drop=3),
    Column("lowest", right=True, drop=2),
    Column("highest", right=True, drop=1),
    Column("last", right=True),
    Column("mean height", right=True),
)


def print_plot(result: Plot) -> None:
    console = output()
    if result.text:
        console.print(Text(result.title, style="bold"))
    for chart in result.charts if result.text else ():
        for line in draw(chart, panel_width(console), height=14) or [heading(chart.title)]:
            console.print(line, soft_wrap=True)
        console.print(table(console, COLUMNS, [_row(chart.title, curve) for curve in chart.curves]))
        console.print()
    for note in [*result.notes, *([] if result.out is None else [f"wrote {result.out}"])]:
        console.print(Text(note, style="dim"), soft_wrap=True)


def _row(metric: str, curve: Curve) -> list[Cell]:
    text, values = catalogue().get(metric).text, [value for _, value in curve.points]
    last = text(values[-1])
    if curve.band:
        last += f" [{text(curve.band[-1][1])}, {text(curve.band[-1][2])}]"
    numbers = [text(values[0]), text(min(values)), text(max(values)), last, text(area_under_curve(curve.points))]
    return [curve.name, str(len(curve.runs) or 1), *numbers]
