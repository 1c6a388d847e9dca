"""Every metric's meaning, bounds, precision and place: `catalogue.yaml`. A name that is not in it is a bug."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.registry import ALGOS, EXTENSIONS
from gymnast.core.text import duration

FORMATS = {"count": ",.0f", "fixed": ",.{}f", "general": ".{}g", "percent": ".{}%"}  # with a metric's precision
STYLES = (*FORMATS, "duration", "flag")


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the catalogue."""

    name: str
    meaning: str
    style: str
    order: float  # place in the file
    precision: int = 0
    unit: str = ""
    low: float | None = None  # None: no bound is known before the run
    high: float | None = None
    warn_low: float | None = None  # of the healthy: beyond it an alert may follow (alerts/rules)
    warn_high: float | None = None
    better: str | None = None  # up, down or None
    emphasis: bool = False
    detail: bool = False  # shown only where there is room

    def __post_init__(self) -> None:
        if self.style not in STYLES or self.better not in ("up", "down", None):
            raise ValueError(f"metric {self.name}: bad style or better")

    @property
    def group(self) -> str:
        """The subject, in front of the slash. `solved` has none and stands with the evaluation."""
        return self.name.partition("/")[0] if "/" in self.name else "eval"

    @property
    def label(self) -> str:
        return self.name.partition("/")[2] or self.name

    def text(self, value: float) -> str:
        """The value as every table shows it."""
        if not math.isfinite(value):
            return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
        if self.style == "flag":
            return "yes" if value else "no"
        return (
            duration(value) if self.style == "duration" else format(value, FORMATS[self.style].format(self.precision))
        )

    def out_of_bounds(self, value: float) -> bool:
        too_low = self.low is not None and value < self.low
        too_high = self.high is not None and value > self.high
        return too_low or too_high or not math.isfinite(value)


class Catalogue:
    """All metrics by name. A name that ends in `/*` is a family: any word fits, and shares the family's line."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        metrics = [Metric(name=name, order=order, **entry) for order, (name, entry) in enumerate(entries.items())]
        self._metrics = {metric.name: metric for metric in metrics if not metric.name.endswith("/*")}
        self._sorted: dict[tuple[str, ...], list[str]] = {}
        self._members: dict[str, Metric] = {}  # of families, as they are asked for
        self._families = {metric.name[:-1]: metric for metric in metrics if metric.name.endswith("/*")}

    def __iter__(self) -> Iterator[Metric]:
        """In order, families included."""
        return iter(sorted([*self._metrics.values(), *self._families.values()], key=lambda metric: metric.order))

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def get(self, name: str) -> Metric:
        metric = self._find(name)
        if metric is None:
            near = did_you_mean(name, self._metrics)
            raise UserError(f"metric {name!r} is neither in catalogue.yaml nor declared by an algorithm.{near}")
        return metric

    def _find(self, name: str) -> Metric | None:
        """By its own name, as a member of a family, or as what somebody who was registered since declares."""
        found = self._metrics.get(name) or self._members.get(name)
        if found is None:
            for prefix, family in self._families.items():
                if name.startswith(prefix) and name != prefix:
                    return self._members.setdefault(name, replace(family, name=name))
            self.add_declared()
            found = self._metrics.get(name)
        return found

    def sort(self, row: Mapping[str, float]) -> dict[str, float]:
        """The row in catalogue order; members of a family by name."""
        names = tuple(row)
        if names not in self._sorted:  # a run's rows have few sets of names
            self._sorted[names] = sorted(names, key=lambda name: (self.get(name).order, name))
        return {name: row[name] for name in self._sorted[names]}

    def add_declared(self) -> None:
        """The metrics of registered algorithms and extensions, each `after` another one; what is there stays."""
        for owner in (registry.get(name) for registry in (ALGOS, EXTENSIONS) for name in registry):
            for number, (name, entry) in enumerate(_parsed(owner.metrics).items()):
                if name not in self._metrics:
                    order = self._metrics[entry.pop("after")].order + (number + 1) / 1000
                    self._metrics[name] = Metric(name=name, order=order, **entry)


def _parsed(text: str) -> dict[str, dict[str, Any]]:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(text) or {}


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The shared metrics, and those that the registered algorithms and extensions declare."""
    found = Catalogue(_parsed((files(__package__) / "catalogue.yaml").read_text("utf-8")))
    found.add_declared()
    return found
