"""Learning curves as an SVG that needs no font, script or package: it looks the same in a browser and a repository."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

LEFT, RIGHT, TOP, BOTTOM = 64, 16, 28, 44
LETTER, LINE = 7, 18  # about how wide one is and how high a line is
COLOURS = ("#0b6e99", "#d9730d", "#6940a5", "#448361")
TICKS = 5

Point = tuple[float, float]


@dataclass
class Series:
    """One contestant: a line with the band around it, a thin line for each run, or dots."""

    name: str
    line: list[Point] = field(default_factory=list)
    band: list[tuple[float, float, float]] = field(default_factory=list)  # x, low, high
    runs: list[list[Point]] = field(default_factory=list)
    dots: list[Point] = field(default_factory=list)

    def points(self) -> list[Point]:
        edges = [point for x, low, high in self.band for point in ((x, low), (x, high))]
        return [*self.line, *edges, *(point for run in self.runs for point in run), *self.dots]


def draw(
    title: str, series: Sequence[Series], bar: float | None, bar_name: str = "", width: int = 640, height: int = 360
) -> str:
    """Not finite points must have been left out."""
    points = [point for one in series for point in one.points()]
    end = max(x for x, _ in points) or 1.0
    values = [y for _, y in points] + ([] if bar is None else [bar])
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.5
    low, high = low - margin, high + margin
    names = [(one.name, COLOURS[index % len(COLOURS)]) for index, one in enumerate(series) if one.name]
    names += [(bar_name, "#448361")] if bar is not None and bar_name else []
    legend = legend_places([name for name, _ in names], width)
    top = TOP + LINE * (1 + max((line for _, line in legend), default=-1))

    def place(x: float, y: float) -> str:
        across = LEFT + x / end * (width - LEFT - RIGHT)
        down = top + (high - y) / (high - low) * (height - top - BOTTOM)
        return f"{across:.1f},{down:.1f}"

    def text(x: float, y: float, words: str, more: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'

    def line(line_of: Sequence[Point], style: str) -> str:
        return f'<polyline fill="none" points="{" ".join(place(*point) for point in line_of)}" {style}/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        text(LEFT, 20, title, 'font-size="14" font-weight="bold"'),
    ]
    for (name, colour), (begin, row) in zip(names, legend, strict=True):
        parts.append(text(begin, 20 + LINE * (row + 1), name, f'font-weight="bold" style="fill:{colour}"'))
    for tick in ticks(low, high):
        parts.append(line([(0, tick), (end, tick)], 'stroke="#e5e5e5"'))
        across, down = (float(number) for number in place(0, tick).split(","))
        parts.append(text(across - 6, down + 4, short(tick), 'text-anchor="end"'))
    for tick in ticks(0, end):
        across, down = (float(number) for number in place(tick, low).split(","))
        parts.append(text(across, down + 16, short(tick), 'text-anchor="middle"'))
    parts.append(text((LEFT + width - RIGHT) / 2, height - 8, "env steps", 'text-anchor="middle"'))
    if bar is not None:
        parts.append(line([(0, bar), (end, bar)], 'stroke="#448361" stroke-dasharray="6 4"'))
    for index, one in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        if one.band:
            outline = [(x, upper) for x, _, upper in one.band] + [(x, lower) for x, lower, _ in reversed(one.band)]
            corners = " ".join(place(*point) for point in outline)
            parts.append(f'<polygon points="{corners}" fill="{colour}" opacity="0.2"/>')
        parts += [line(run, f'stroke="{colour}" opacity="0.6"') for run in one.runs]
        if one.line:
            parts.append(line(one.line, f'stroke="{colour}" stroke-width="2"'))
        for dot in one.dots or (one.line if len(one.line) == 1 else ()):
            centre = place(*dot).split(",")
            parts.append(f'<circle cx="{centre[0]}" cy="{centre[1]}" r="4" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])


def legend_places(names: Sequence[str], width: int) -> list[tuple[int, int]]:
    """Where each begins and in which line: as many in a line as fit."""
    places, across, row = [], LEFT, 0
    for name in names:
        if across > LEFT and across + LETTER * len(name) > width - RIGHT:
            across, row = LEFT, row + 1
        places.append((across, row))
        across += LETTER * len(name) + 2 * LETTER
    return places


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two, about five."""
    rough = (high - low) / TICKS
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [step * index for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def short(value: float) -> str:
    """250000 -> 250k; 0.30000000000000004 -> 0.3."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:.6g}"
