"""A learning curve or a histogram in a few lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

from rich.text import Text

from gymnast.apps.terminal import number

Points = Sequence[tuple[float, float]]  # (env steps, value), in order

BLOCKS = ["", *"▏▎▍▌▋▊▉█"]  # eighths of a column
LINE, DOT, LEVEL = "▪", "◆", "┄"
STYLES = {LINE: "cyan", DOT: "bold yellow", LEVEL: "green"}


def chart(line: Points, dots: Points, level: float | None, width: int, height: int = 10) -> list[Text]:
    """`line` through the mean of each column's stretch, `dots` one by one on top, `level` as a line across.

    No text at all where there is nothing finite to draw. A level far away from all points is left out: it would
    press them into one row.
    """
    line = [point for point in line if math.isfinite(point[1])]
    dots = [point for point in dots if math.isfinite(point[1])]
    values = [value for _, value in (*line, *dots)]
    if not values:
        return []
    low, high = min(values), max(values)
    if level is not None and low - 3 * (high - low) <= level <= high + 3 * (high - low):
        low, high = min(low, level), max(high, level)
    else:
        level = None
    if high == low:
        low, high = low - 0.5, high + 0.5
    labels = [number(low + (high - low) * row / (height - 1)) for row in range(height)]
    margin = max(len(label) for label in labels)
    width = max(width - margin - 2, 10)
    end = max(step for step, _ in (*line, *dots)) or 1

    def column(step: float) -> int:
        return min(int(step / end * width), width - 1)

    def row(value: float) -> int:
        return round((value - low) / (high - low) * (height - 1))

    cells = [[" "] * width for _ in range(height)]
    if level is not None:
        cells[row(level)] = [LEVEL] * width
    stretches: dict[int, list[float]] = {}
    for step, value in line:
        stretches.setdefault(column(step), []).append(value)
    means = {place: sum(values) / len(values) for place, values in sorted(stretches.items())}
    for left, right in pairwise(means):  # rows may be rarer than columns: the line goes straight from one to the next
        slope = (means[right] - means[left]) / (right - left)
        for place in range(left, right):
            cells[row(means[left] + slope * (place - left))][place] = LINE
    for place in list(means)[-1:]:
        cells[row(means[place])][place] = LINE
    for step, value in dots:
        cells[row(value)][column(step)] = DOT
    shown = {0, height // 2, height - 1}
    picture = []
    for index in reversed(range(height)):
        text = Text(no_wrap=True).append(f"{labels[index] if index in shown else '':>{margin}} ", style="dim")
        text.append("┤" if index in shown else "│", style="bright_black")
        for mark, same in groupby(cells[index]):
            text.append("".join(same), style=STYLES.get(mark, "default"))
        picture.append(text)
    foot = f"0{number(end) + ' steps':>{width - 1}}"
    picture.append(Text(" " * (margin + 1) + "└" + "─" * width, style="bright_black", no_wrap=True))
    picture.append(Text(" " * (margin + 2) + foot, style="dim", no_wrap=True))
    return picture


def histogram(bars: Sequence[tuple[str, int]], width: int) -> list[Text]:
    """A line for each bar: its name, its length, its share. What is there at all is seen, however little it is."""
    total, most = sum(count for _, count in bars), max((count for _, count in bars), default=0)
    margin = max((len(name) for name, _ in bars), default=0)
    room = max(width - margin - 10, 10)
    lines = []
    for name, count in bars:
        eighths = max(round(8 * room * count / most), 1) if count else 0
        bar = BLOCKS[-1] * (eighths // 8) + BLOCKS[eighths % 8]
        line = Text(no_wrap=True).append(f"{name:>{margin}} ", style="dim").append(bar, style="cyan")
        lines.append(line.append(f" {count / total:.2%}" if count else "", style="default"))
    return lines


def legend(line: str, dots: str, level: str | None) -> Text:
    text = Text("  ").append(f"{LINE} ", style=STYLES[LINE]).append(line, style="dim")
    text.append(f"   {DOT} ", style=STYLES[DOT]).append(dots, style="dim")
    if level is not None:
        text.append(f"   {LEVEL}{LEVEL} ", style=STYLES[LEVEL]).append(level, style="dim")
    return text
