"""A chart as data. `text`, `svg` and `figure` draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
Points = Sequence[Point]  # (env steps or another clock, value), in order


@dataclass(frozen=True)
class Curve:
    """A line through points, or, not `joined`, dots one by one on top of all lines."""

    name: str
    points: Points = ()
    joined: bool = True
    band: Sequence[tuple[float, float, float]] = ()  # x, low, high
    runs: Sequence[Points] = ()  # the line is their mean; where there is no line, a thin one for each of them

    def finite(self) -> Curve:
        band = [edge for edge in self.band if all(map(math.isfinite, edge))]
        return Curve(self.name, finite(self.points), self.joined, band, [finite(run) for run in self.runs])

    def extent(self) -> list[Point]:
        """Every point that must be in the picture."""
        edges = [(x, y) for x, *ends in self.band for y in ends]
        return [*self.points, *edges, *(() if self.points else (point for run in self.runs for point in run))]


@dataclass(frozen=True)
class Chart:
    title: str
    curves: tuple[Curve, ...]
    level: float | None = None  # a line across
    level_name: str = ""
    unit: str = "env steps"
    in_text: bool = True  # False: pictures only, a line of the text's tables says as much
    small: bool = False


def finite(points: Iterable[Point]) -> list[Point]:
    return [point for point in points if all(map(math.isfinite, point))]


def thinned(points: Points, most: int) -> list[Point]:
    """Evenly chosen, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]
