"""A chart as data. `text`, `svg` and `figure` draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TICKS = 5  # about so many

Point = tuple[float, float]
Points = Sequence[Point]  # (env steps or another clock, value), in order


@dataclass(frozen=True)
class Curve:
    """A line through points, or, not `joined`, dots one by one on top of all lines."""

    name: str
    points: Points = ()
    joined: bool = True
    band: Sequence[tuple[float, float, float]] = ()  # x, low, high; of dots: a bar through each
    runs: Sequence[Points] = ()  # the line is their mean; where there is no line, a thin one for each of them

    def finite(self) -> Curve:
        band = [edge for edge in self.band if all(map(math.isfinite, edge))]
        return Curve(self.name, finite(self.points), self.joined, band, [finite(run) for run in self.runs])

    def extent(self) -> list[Point]:
        """Every point that must be in the picture."""
        edges = [(x, y) for x, *ends in self.band for y in ends]
        return [*self.points, *edges, *(() if self.points else (point for run in self.runs for point in run))]


class Level(NamedTuple):
    """A line across."""

    value: float
    name: str = ""


@dataclass(frozen=True)
class Chart:
    title: str
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    unit: str = "env steps"
    in_text: bool = True  # False: pictures only, a line of the text's tables says as much
    small: bool = False


def goals(threshold: float | None, target: float | None) -> tuple[Level, ...]:
    """What counts as solved, and the target beyond it."""
    known = {"solved at": threshold, "target": target}
    return tuple(Level(value, f"{name} {value:g}") for name, value in known.items() if value is not None)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two."""
    step = tick_size(low, high)
    return [step * index for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def tick_size(low: float, high: float) -> float:
    rough = (high - low) / TICKS
    size = 10 ** math.floor(math.log10(rough))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)


def last_x(points: Iterable[Point]) -> float:
    """Where the axis ends that begins at 0."""
    end = max(x for x, _ in points)
    return end if end > 1e-200 else 1.0


def finite(points: Iterable[Point]) -> list[Point]:
    return [point for point in points if all(map(math.isfinite, point))]


def thinned(points: Points, most: int) -> list[Point]:
    """Evenly chosen, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]
