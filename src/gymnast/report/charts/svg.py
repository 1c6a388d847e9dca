"""A chart as an SVG that needs no font, script or package: it looks the same in a browser and a repository."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from xml.sax.saxutils import escape

from gymnast.core.statistics import widened
from gymnast.report.charts.model import Chart, Curve, Point, Points, last_x, ticks

LEFT, RIGHT, TOP, BOTTOM = 64, 16, 28, 44
LETTER, LINE = 7, 18  # about how wide one is and how high a line is
COLOURS = ("#0b6e99", "#d9730d", "#6940a5", "#448361")
LEVEL, DASHES = "#777", ("6 4", "2 3")  # of the first level and of further ones


@dataclass(frozen=True)
class Frame:
    """Where a point lies in the picture, and how to write what is there."""

    low: float
    high: float
    end: float
    top: int
    width: int
    height: int

    def place(self, x: float, y: float) -> Point:
        across = LEFT + x / self.end * (self.width - LEFT - RIGHT)
        return across, self.top + (self.high - y) / (self.high - self.low) * (self.height - self.top - BOTTOM)

    def corners(self, points: Points) -> str:
        return " ".join("{:.1f},{:.1f}".format(*self.place(*point)) for point in points)

    def line(self, points: Points, style: str) -> str:
        return f'<polyline fill="none" points="{self.corners(points)}" {style}/>'


def text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def draw(chart: Chart, width: int = 640, height: int = 360) -> str:
    """Nothing where there is nothing finite to draw. A small chart has no legend."""
    curves = [curve for curve in (curve.finite() for curve in chart.curves) if curve.extent()]
    points = [point for curve in curves for point in curve.extent()]
    if not points:
        return ""
    levels = [level for level in chart.levels if math.isfinite(level.value)]
    values = [y for _, y in points] + [level.value for level in levels]
    low, high = widened(min(values), max(values), margin=0.05)
    coloured = list(zip(curves, cycle(COLOURS), strict=False))
    names = [] if chart.small else [(curve.name, colour) for curve, colour in coloured]
    names += [(level.name, LEVEL) for level in levels if level.name]
    legend = legend_places([name for name, _ in names], width)
    top = TOP + LINE * (1 + max((line for _, line in legend), default=-1))
    frame = Frame(low, high, last_x(points), top, width, height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        text(LEFT, 20, chart.title, 'font-size="14" font-weight="bold"'),
    ]
    for (name, colour), (begin, row) in zip(names, legend, strict=True):
        parts.append(text(begin, 20 + LINE * (row + 1), name, f'font-weight="bold" style="fill:{colour}"'))
    parts += _axes(frame, chart.unit)
    for level, dashes in zip(levels, cycle(DASHES), strict=False):
        ends = [(0, level.value), (frame.end, level.value)]
        parts.append(frame.line(ends, f'stroke="{LEVEL}" stroke-dasharray="{dashes}"'))
    for curve, colour in coloured:
        parts += _curve(frame, curve, colour)
    return "\n".join([*parts, "</svg>", ""])


def _axes(frame: Frame, unit: str) -> list[str]:
    parts = []
    for tick in ticks(frame.low, frame.high):
        parts.append(frame.line([(0, tick), (frame.end, tick)], 'stroke="#e5e5e5"'))
        across, down = frame.place(0, tick)
        parts.append(text(across - 6, down + 4, short(tick), 'text-anchor="end"'))
    for tick in ticks(0, frame.end):
        across, down = frame.place(tick, frame.low)
        parts.append(text(across, down + 16, short(tick), 'text-anchor="middle"'))
    return [*parts, text((LEFT + frame.width - RIGHT) / 2, frame.height - 8, unit, 'text-anchor="middle"')]


def _curve(frame: Frame, curve: Curve, colour: str) -> list[str]:
    parts = []
    if not curve.joined:
        bars = ([(x, low), (x, high)] for x, low, high in curve.band)
        parts += [frame.line(ends, f'stroke="{colour}" opacity="0.5"') for ends in bars]
    elif curve.band:
        outline = [(x, upper) for x, _, upper in curve.band] + [(x, lower) for x, lower, _ in reversed(curve.band)]
        parts.append(f'<polygon points="{frame.corners(outline)}" fill="{colour}" opacity="0.2"/>')
    if not curve.points:
        return [*parts, *(frame.line(run, f'stroke="{colour}" opacity="0.6"') for run in curve.runs)]
    if curve.joined and len(curve.points) > 1:
        return [*parts, frame.line(curve.points, f'stroke="{colour}" stroke-width="2"')]
    dots = (frame.place(*point) for point in curve.points)
    return [*parts, *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in dots)]


def legend_places(names: Sequence[str], width: int) -> list[tuple[int, int]]:
    """Where each begins and in which line: as many in a line as fit."""
    places, across, row = [], LEFT, 0
    for name in names:
        if across > LEFT and across + LETTER * len(name) > width - RIGHT:
            across, row = LEFT, row + 1
        places.append((across, row))
        across += LETTER * len(name) + 2 * LETTER
    return places


def short(value: float) -> str:
    """250000 -> 250k; 0.30000000000000004 -> 0.3."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:.6g}"
