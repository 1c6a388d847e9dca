"""Learning curves or a histogram in a few lines of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from rich.text import Text

Points = Sequence[tuple[float, float]]  # (env steps or another clock, value), in order

BLOCKS = ["", *"▏▎▍▌▋▊▉█"]  # eighths of a column
LINE, DOT, LEVEL, BAND = "▪", "◆", "┄", "░"
MARKS = (LINE, "●", "▲", "◇", "+", "x", "○", "△")  # of several lines, told apart without colours
COLOURS = ("cyan", "magenta", "blue", "red", "bright_cyan", "bright_magenta", "bright_blue", "bright_red")
LEVEL_STYLE, DOT_STYLE = "green", "bold yellow"


@dataclass(frozen=True)
class Curve:
    """A line through points, or, not `joined`, dots one by one on top of all lines."""

    name: str
    points: Points
    mark: str = LINE
    style: str = COLOURS[0]
    joined: bool = True
    band: Sequence[tuple[float, float, float]] = ()  # x, low, high


def dots(name: str, points: Points) -> Curve:
    return Curve(name, points, DOT, DOT_STYLE, joined=False)


def chart(
    curves: Sequence[Curve], level: float | None, width: int, height: int = 10, unit: str = "steps"
) -> list[Text]:
    """The curves over a common axis that begins at 0, `level` as a line across; a line through the mean of each
    column's stretch.

    No text at all where there is nothing finite to draw. A level far away from all points is left out: it would
    press them into one row.
    """
    edges = [(x, y) for curve in curves for x, *ends in curve.band for y in ends]
    points = _finite([*(point for curve in curves for point in curve.points), *edges])
    if not points:
        return []
    low, high = min(value for _, value in points), max(value for _, value in points)
    if level is not None and low - 3 * (high - low) <= level <= high + 3 * (high - low):
        low, high = min(low, level), max(high, level)
    else:
        level = None
    if high == low:
        low, high = low - 0.5, high + 0.5
    shown = (0, height // 2, height - 1)
    labels = dict(zip(shown, _labels([low + (high - low) * row / (height - 1) for row in shown]), strict=True))
    margin = max(len(label) for label in labels.values())
    width = max(width - margin - 2, 10)
    end = max(x for x, _ in points) or 1

    def column(x: float) -> int:
        return min(int(x / end * width), width - 1)

    def row(value: float) -> int:
        return round((value - low) / (high - low) * (height - 1))

    def by_column(points: Points) -> dict[int, float]:
        """The mean of each column's stretch. Points may be rarer than columns: straight from one to the next."""
        stretches: dict[int, list[float]] = {}
        for x, value in _finite(points):
            stretches.setdefault(column(x), []).append(value)
        means = {place: sum(values) / len(values) for place, values in sorted(stretches.items())}
        filled = dict(means)
        for left, right in pairwise(means):
            slope = (means[right] - means[left]) / (right - left)
            filled |= {place: means[left] + slope * (place - left) for place in range(left, right)}
        return filled

    cells = [[(" ", "default")] * width for _ in range(height)]
    if level is not None:
        cells[row(level)] = [(LEVEL, LEVEL_STYLE)] * width
    for curve in curves:
        lower, upper = ([(x, ends[side]) for x, *ends in curve.band] for side in (0, 1))
        tops = by_column(upper)
        for place, value in by_column(lower).items():
            for index in range(row(value), row(tops.get(place, value)) + 1):
                cells[index][place] = (BAND, curve.style)
    for curve in sorted(curves, key=lambda curve: not curve.joined):
        places = by_column(curve.points).items() if curve.joined else [(column(x), y) for x, y in _finite(curve.points)]
        for place, value in places:
            cells[row(value)][place] = (curve.mark, curve.style)
    picture = []
    for index in reversed(range(height)):
        text = Text(no_wrap=True).append(f"{labels.get(index, ''):>{margin}} ", style="dim")
        text.append("┤" if index in labels else "│", style="bright_black")
        for (mark, style), same in groupby(cells[index]):
            text.append(mark * len(list(same)), style=style)
        text.rstrip()
        picture.append(text)
    last = f"{end:,.0f}" if end >= 10 else f"{end:.3g}"
    foot = f"0{f'{last} {unit}':>{width - 1}}"
    picture.append(Text(" " * (margin + 1) + "└" + "─" * width, style="bright_black", no_wrap=True))
    picture.append(Text(" " * (margin + 2) + foot, style="dim", no_wrap=True))
    return picture


def thinned(points: Points, most: int) -> list[tuple[float, float]]:
    """Evenly chosen, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]


def _finite(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for point in points if math.isfinite(point[1])]


def _labels(values: Sequence[float]) -> list[str]:
    """As many decimals as tell them apart; none where all are whole."""
    if all(float(value).is_integer() for value in values):
        digits = 0
    else:
        digits = min(max(1 - math.floor(math.log10(max(values) - min(values))), 0), 9)
    return [f"{value:,.{digits}f}" for value in values]


def histogram(bars: Sequence[tuple[str, int]], width: int) -> list[Text]:
    """A line for each bar: its name, its length, its share. What is there at all is seen, however little it is."""
    total, most = sum(count for _, count in bars), max((count for _, count in bars), default=0)
    margin = max((len(name) for name, _ in bars), default=0)
    room = max(width - margin - 10, 10)
    lines = []
    for name, count in bars:
        line = Text(no_wrap=True).append(f"{name:>{margin}} ", style="dim")
        line.append(bar(count / most, room) if count else "", style="cyan")
        lines.append(line.append(f" {count / total:.2%}" if count else "", style="default"))
    return lines


def bar(share: float, width: int) -> str:
    """A share of the width in eighths of a column; what is there at all is seen."""
    eighths = max(round(8 * width * share), 1)
    return BLOCKS[-1] * (eighths // 8) + BLOCKS[eighths % 8]


def legend(curves: Sequence[Curve], level: str | None, picture: Sequence[Text]) -> Text:
    """What the marks of a picture mean, and the level that was too far away to be in it."""
    text = Text()
    for curve in curves:
        text.append(f"  {curve.mark} ", style=curve.style).append(f"{curve.name} ", style="dim")
    if level is not None and any(LEVEL in line.plain for line in picture):
        text.append(f"  {LEVEL}{LEVEL} ", style=LEVEL_STYLE).append(level, style="dim")
    elif level is not None:
        text.append(f"  {level}, far off", style="dim")
    return text
