"""Charts and histograms in a few lines of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, groupby, pairwise

from rich.text import Text

from gymnast.core.statistics import widened
from gymnast.core.text import bar
from gymnast.report.charts.model import Chart, Curve, Level, Points, last_x, tick_size

DOTS, LEVEL, BAND = "◆★", "┄", "░"
MARKS = "▪●▲◇+x○△"  # of several lines, which differ without colours too
COLOURS = ("cyan", "magenta", "blue", "red", "bright_cyan", "bright_magenta", "bright_blue", "bright_red")
LEVEL_STYLE, DOT_STYLES = "white", ("bold yellow", "bold green")


Cells = list[list[tuple[str, str]]]  # by row from below and column: a mark and its style


@dataclass(frozen=True)
class Grid:
    """Where a point lies: x begins at 0, the lowest value is in row 0."""

    low: float
    high: float
    end: float
    width: int
    height: int

    def column(self, x: float) -> int:
        return min(int(x / self.end * self.width), self.width - 1)

    def row(self, value: float) -> int:
        return round((value - self.low) / (self.high - self.low) * (self.height - 1))

    def by_column(self, points: Points) -> dict[int, float]:
        """The mean of each column's stretch. Points may be rarer than columns: straight from one to the next."""
        stretches: dict[int, list[float]] = {}
        for x, value in points:
            stretches.setdefault(self.column(x), []).append(value)
        means = {place: sum(values) / len(values) for place, values in sorted(stretches.items())}
        filled = dict(means)
        for left, right in pairwise(means):
            slope = (means[right] - means[left]) / (right - left)
            filled |= {place: means[left] + slope * (place - left) for place in range(left, right)}
        return filled


def draw(chart: Chart, width: int, height: int = 10) -> list[Text]:
    """Title and legend, then the curves over a common axis. No text at all where there is nothing finite to draw.

    The axis begins and ends at round numbers. A level far away from all points is left out, and the legend says so: it
    would press them into one row.
    """
    curves = [curve.finite() for curve in chart.curves]
    points = [point for curve in curves for point in curve.extent()]
    if not points:
        return []
    low, high = min(value for _, value in points), max(value for _, value in points)
    reach = 3 * (high - low)
    levels = [level for level in chart.levels if low - reach <= level.value <= high + reach]
    values = [low, high, *(level.value for level in levels)]
    low, high = min(values), max(values)
    low, high = widened(low, high)
    step = tick_size(low, high)
    first, last = math.floor(low / step), math.ceil(high / step)
    digits = max(-math.floor(math.log10(step)), 0)
    numbers = {step * index: f"{step * index:,.{digits}f}" for index in range(first, last + 1)}
    margin = max(map(len, numbers.values()))
    end = last_x(points)
    grid = Grid(step * first, step * last, end, max(width - margin - 2, 10), height)
    labels = {grid.row(value): number for value, number in numbers.items()}
    marks = _marks(curves)
    cells = _cells(grid, curves, marks, levels)
    return [_heading(chart, marks, levels), *_frame(grid, cells, labels, margin, chart.unit)]


def _cells(grid: Grid, curves: Sequence[Curve], marks: Sequence[tuple[str, str]], levels: Sequence[Level]) -> Cells:
    """Levels lie behind the bands, these behind the lines, the dots on top."""
    cells = [[(" ", "default")] * grid.width for _ in range(grid.height)]
    for level in levels:
        cells[grid.row(level.value)] = [(LEVEL, LEVEL_STYLE)] * grid.width
    for curve, (_, style) in zip(curves, marks, strict=True):
        band = curve.band if curve.joined else ()
        lower, upper = (grid.by_column([(x, ends[side]) for x, *ends in band]) for side in (0, 1))
        for place, value in lower.items():
            for row in range(grid.row(value), grid.row(upper.get(place, value)) + 1):
                cells[row][place] = (BAND, style)
    for curve, mark in sorted(zip(curves, marks, strict=True), key=lambda pair: not pair[0].joined):
        dots = [(grid.column(x), value) for x, value in curve.points]
        for place, value in grid.by_column(curve.points).items() if curve.joined else dots:
            cells[grid.row(value)][place] = mark
    return cells


def _frame(grid: Grid, cells: Cells, labels: Mapping[int, str], margin: int, unit: str) -> list[Text]:
    """The cells between their axes, from the top."""
    lines = []
    for row in reversed(range(grid.height)):
        text = Text(no_wrap=True).append(f"{labels.get(row, ''):>{margin}} ", style="dim")
        text.append("┤" if row in labels else "│", style="bright_black")
        for (mark, style), same in groupby(cells[row]):
            text.append(mark * len(list(same)), style=style)
        text.rstrip()
        lines.append(text)
    last = f"{grid.end:,.0f}" if grid.end >= 10 else f"{grid.end:.3g}"
    lines.append(Text(" " * (margin + 1) + "└" + "─" * grid.width, style="bright_black", no_wrap=True))
    foot = f"0{f'{last} {unit}':>{grid.width - 1}}"
    return [*lines, Text(" " * (margin + 2) + foot, style="dim", no_wrap=True)]


def _marks(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    """A mark and a style for each curve."""
    lines = zip(cycle(MARKS), cycle(COLOURS), strict=False)
    dots = zip(cycle(DOTS), cycle(DOT_STYLES), strict=False)
    return [next(lines if curve.joined else dots) for curve in curves]


def _heading(chart: Chart, marks: Sequence[tuple[str, str]], drawn: Sequence[Level]) -> Text:
    """The title and what the marks mean."""
    text = Text().append(chart.title, style="bold yellow")
    for curve, (mark, style) in zip(chart.curves, marks, strict=True):
        text.append(f"  {mark} ", style=style).append(f"{curve.name} ", style="dim")
    for level in chart.levels:
        mark, note = (f"{LEVEL}{LEVEL} ", "") if level in drawn else ("", ", far off")
        text.append(f"  {mark}", style=LEVEL_STYLE).append(level.name + note, style="dim")
    return text


def histogram(bars: Sequence[tuple[str, int]], width: int) -> list[Text]:
    """A line for each bar: its name, its length, its share."""
    total, most = sum(count for _, count in bars), max((count for _, count in bars), default=0)
    margin = max((len(name) for name, _ in bars), default=0)
    room = max(width - margin - 10, 10)
    lines = []
    for name, count in bars:
        line = Text(no_wrap=True).append(f"{name:>{margin}} ", style="dim")
        line.append(bar(count / most, room) if count else "", style="cyan")
        lines.append(line.append(f" {count / total:.2%}" if count else "", style="default"))
    return lines
