"""What rules say of a row: evidence when it is bad, an empty dict when it is not, None when the row cannot tell."""

from __future__ import annotations

from collections.abc import Mapping

from gymnast.alerts.advice import Known
from gymnast.alerts.alert import Evidence
from gymnast.metrics.catalogue import catalogue

Row = Mapping[str, float]
Memory = dict[str, float]  # what a rule remembers of earlier rows; part of a checkpoint
Found = dict[str, Evidence] | None


def is_above(row: Row, name: str, high: float | None = None) -> Found:
    """Above `high`, or above the catalogue's bound."""
    value, high = row.get(name), warn_high(name) if high is None else high
    return None if value is None else {name: Evidence(value, high=high)} if value > high else {}


def is_below(row: Row, name: str, low: float | None = None) -> Found:
    value, low = row.get(name), warn_low(name) if low is None else low
    return None if value is None else {name: Evidence(value, low=low)} if value < low else {}


def warn_high(name: str) -> float:
    bound = catalogue().get(name).warn_high
    assert bound is not None, f"catalogue.yaml: {name} has no warn_high"
    return bound


def warn_low(name: str) -> float:
    bound = catalogue().get(name).warn_low
    assert bound is not None, f"catalogue.yaml: {name} has no warn_low"
    return bound


def seen(row: Row, name: str) -> dict[str, Evidence]:
    """A further value, shown with the one that crossed a bound."""
    return {name: Evidence(row[name])} if name in row else {}


def behind(row: Row, known: Known) -> bool:
    """Whether the score is short of the threshold. Without one nobody knows, and nothing is excused by a good score."""
    score = row.get("rollout/ep_rew_mean")
    return score is None or known.threshold is None or score < known.threshold
