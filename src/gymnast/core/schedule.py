"""A number over training: constant, linear, cosine or piecewise linear in the run's progress (0 to 1)."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

FORMS = (
    "Use a number (3e-4), 'lin_3e-4' (linear to 0),"
    " {start: 3e-4, end: 0, from: 0, to: 1, shape: linear or cosine, floor: 1e-5}"
    " or {points: [[0, 3e-4], [0.5, 1e-4]]}."
)
SHAPES = ("linear", "cosine")
RAMP_KEYS = ("start", "end", "from", "to", "shape", "floor")


def _finite(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{what} must be a finite number, not {value!r}. {FORMS}")
    return float(value)


def _floor(form: Mapping[str, Any]) -> float | None:
    return None if form.get("floor") is None else _finite(form["floor"], "floor")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Knots (progress, value), joined linearly or by a half cosine; constant before the first and after the last.

    Two knots at one progress make a jump: from there on the second one holds.
    """

    knots: tuple[tuple[float, float], ...]
    shape: str = "linear"
    floor: float | None = None

    @classmethod
    def constant(cls, value: float) -> Schedule:
        return cls(((0.0, float(value)),))

    @classmethod
    def parse(cls, form: Any) -> Schedule:
        """Reads any accepted form; a ValueError says which part is wrong and what is accepted."""
        if isinstance(form, Schedule):
            return form
        if isinstance(form, str):
            return cls._parse_text(form)
        if isinstance(form, Mapping):
            return cls._parse_points(form) if "points" in form else cls._parse_ramp(form)
        return cls.constant(_finite(form, "a schedule"))

    @classmethod
    def _parse_text(cls, text: str) -> Schedule:
        kind, _, number = text.rpartition("_")
        if kind not in ("", "lin"):
            raise ValueError(f"{text!r} is not a schedule. {FORMS}")
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"{text!r} is not a schedule. {FORMS}") from None
        value = _finite(value, "a schedule's value")
        return cls(((0.0, value), (1.0, 0.0))) if kind else cls.constant(value)

    @classmethod
    def _parse_ramp(cls, form: Mapping[str, Any]) -> Schedule:
        if unknown := [key for key in form if key not in RAMP_KEYS]:
            raise ValueError(f"a schedule has no key {unknown[0]!r}. {FORMS}")
        if missing := [key for key in ("start", "end") if key not in form]:
            raise ValueError(f"the schedule's {missing[0]!r} is missing. {FORMS}")
        start, end = _finite(form["start"], "start"), _finite(form["end"], "end")
        begin, until = _finite(form.get("from", 0.0), "from"), _finite(form.get("to", 1.0), "to")
        if not 0.0 <= begin < until <= 1.0:
            raise ValueError(f"from {begin:g} and to {until:g} must satisfy 0 <= from < to <= 1 (shares of the run).")
        shape = form.get("shape", "linear")
        if shape not in SHAPES:
            raise ValueError(f"shape {shape!r} must be one of {', '.join(SHAPES)}.")
        return cls(((begin, start), (until, end)), shape, _floor(form))

    @classmethod
    def _parse_points(cls, form: Mapping[str, Any]) -> Schedule:
        if unknown := [key for key in form if key not in ("points", "floor")]:
            raise ValueError(f"a schedule of points has no key {unknown[0]!r}. {FORMS}")
        points = form["points"]
        if not isinstance(points, Sequence) or isinstance(points, str) or not points:
            raise ValueError(f"points must be a list of [progress, value] pairs, not {points!r}.")
        knots: list[tuple[float, float]] = []
        for point in points:
            if not isinstance(point, Sequence) or isinstance(point, str) or len(point) != 2:
                raise ValueError(f"point {point!r} must be a pair [progress, value].")
            at, value = _finite(point[0], "a point's progress"), _finite(point[1], "a point's value")
            if not 0.0 <= at <= 1.0:
                raise ValueError(f"a point's progress {at:g} is outside 0..1 (a share of the run).")
            knots.append((at, value))
        for (before, _), (after, _) in itertools.pairwise(knots):
            if after < before:
                raise ValueError(f"points must be ordered by progress: {after:g} comes after {before:g}.")
        if len(knots) == 1:  # constant, wherever the point stands
            knots = [(0.0, knots[0][1])]
        return cls(tuple(knots), "linear", _floor(form))

    def value(self, progress: float) -> float:
        knots = self.knots
        after = bisect_right(knots, progress, key=itemgetter(0))
        if 0 < after < len(knots):
            value = self._between(knots[after - 1], knots[after], progress)
        else:
            value = knots[max(after - 1, 0)][1]
        return value if self.floor is None else max(value, self.floor)

    def _between(self, left: tuple[float, float], right: tuple[float, float], progress: float) -> float:
        share = (progress - left[0]) / (right[0] - left[0])
        if self.shape == "cosine":
            share = (1.0 - math.cos(math.pi * share)) / 2.0
        # This form, unlike left + (right - left) * share, gives exactly left * (1 - share) for a ramp to zero.
        return left[1] * (1.0 - share) + right[1] * share if left[1] != right[1] else left[1]

    @property
    def is_constant(self) -> bool:
        return self.lowest == self.highest

    @property
    def lowest(self) -> float:
        return min(self._reached())

    @property
    def highest(self) -> float:
        return max(self._reached())

    def _reached(self) -> list[float]:
        values = [value for _, value in self.knots]
        return values if self.floor is None else [max(value, self.floor) for value in values]

    def to_form(self) -> float | str | dict[str, Any]:
        """The shortest form that parses back to an equal schedule."""
        floor = {} if self.floor is None else {"floor": self.floor}
        if len(self.knots) == 1 and not floor:
            return self.knots[0][1]
        if len(self.knots) != 2 or self.knots[0][0] == self.knots[1][0]:
            return {"points": [list(knot) for knot in self.knots], **floor}
        (begin, start), (until, end) = self.knots
        whole_run = (begin, until) == (0.0, 1.0)
        if whole_run and end == 0.0 and self.shape == "linear" and not floor:
            return f"lin_{start!r}"
        others = {"from": (begin, 0.0), "to": (until, 1.0), "shape": (self.shape, "linear")}
        given = {key: value for key, (value, default) in others.items() if value != default}
        return {"start": start, "end": end, **given, **floor}

    def __str__(self) -> str:
        form = self.to_form()
        return form if isinstance(form, str) else f"{form:g}" if isinstance(form, float) else str(form)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(cls.to_form)
        )


@dataclass
class Every:
    """Something that is due every `interval` env steps, at the first moment on or after each multiple; 0: never."""

    interval: int
    next: int = 0

    def due(self, step: int, ending: bool = False) -> bool:
        """`ending`: a last time, unless it never happens."""
        return self.interval > 0 and (ending or step >= self.next)

    def done(self, step: int) -> None:
        """It happened at that step: due again at the next multiple."""
        self.next = (step // self.interval + 1) * self.interval if self.interval else 0
