"""Curves for a page: columns of numbers, not longer than a screen is wide."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from gymnast.report.charts.model import Points
from gymnast.verbs.runs.sides import CLOCKS

POINTS = 2000
AXES = {"env_steps": "steps", "vector_steps": "vec_steps", "updates": "updates", "seconds": "seconds"}


def clock_of(axis: str | None) -> str:
    """The metric behind an axis; env steps where the page names none we know."""
    return CLOCKS[AXES.get(axis or "", "steps")][0]


def columns(points: Points, most: int = POINTS) -> dict[str, list[float | None]]:
    """x, y; of more points than `most`, the mean of each stretch in y and its extremes in low and high. `bad`: where y
    is NaN or infinite, if it is anywhere, of at most so many points."""
    ordered = sorted(points, key=lambda point: point[0])
    bad: list[float | None] = [x for x, y in ordered if not math.isfinite(y)]
    marks: dict[str, list[float | None]] = {"bad": bad[:: -(-len(bad) // most)]} if bad else {}
    if len(ordered) <= most:
        return {"x": [x for x, _ in ordered], "y": [_finite(y) for _, y in ordered], **marks}
    cuts = [index * len(ordered) // most for index in range(most + 1)]
    rows = [_stretch(ordered[a:b]) for a, b in pairwise(cuts)]
    names = ("x", "y", "low", "high")
    return {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)} | marks


def _stretch(points: Points) -> tuple[float | None, ...]:
    values = [y for _, y in points if math.isfinite(y)]
    if not values:
        return points[-1][0], None, None, None
    return points[-1][0], sum(values) / len(values), min(values), max(values)


def band(edges: Iterable[tuple[float, float, float]]) -> dict[str, Any]:
    lows_and_highs = list(edges)
    return {
        "low": [_finite(low) for _, low, _ in lows_and_highs],
        "high": [_finite(high) for *_, high in lows_and_highs],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
