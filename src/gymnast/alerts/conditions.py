"""What rules say of a row: evidence when it is bad, an empty dict when it is not, None when the row cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gymnast.alerts.advice import Known
from gymnast.alerts.alert import Evidence
from gymnast.metrics.catalogue import catalogue

if TYPE_CHECKING:
    from gymnast.config import RunConfig

NO_RISE = 0.5  # standard deviations of a return, by which a score must have grown to count as risen

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


def note_returns(row: Row, known: Known) -> None:
    """Keeps what rules ask of the returns so far: the first mean, the lowest, the highest, and how much they vary."""
    score, past = row.get("rollout/ep_rew_mean"), known.returns
    if score is None:
        return
    low, high = row.get("rollout/ep_rew_min", score), row.get("rollout/ep_rew_max", score)
    past.setdefault("first", score)
    past["lowest"], past["highest"] = min(past.get("lowest", low), low), max(past.get("highest", high), high)
    past["noise"] = max(past.get("noise", 0.0), row.get("rollout/ep_rew_std", 0.0))


def all_alike(known: Known) -> bool:
    """Whether every return of the run was the same: nothing can be learned from them, which is an alert of its own."""
    return "lowest" in known.returns and known.returns["lowest"] == known.returns["highest"]


def is_perfect(row: Row, known: Known) -> bool:
    """Whether all returns are the same one, none of the run was higher, and some were lower."""
    low, high = row.get("rollout/ep_rew_min"), row.get("rollout/ep_rew_max")
    past = known.returns
    return low is not None and low == high and past.get("lowest", low) < low >= past.get("highest", low)


def behind(row: Row, known: Known) -> bool:
    """Whether the score is short of the threshold. Without one nobody knows how good a score is, and nothing but
    perfect returns is an excuse."""
    score = row.get("rollout/ep_rew_mean")
    if score is not None and known.threshold is not None:
        return score < known.threshold
    return not is_perfect(row, known)


def is_poor(row: Row, known: Known) -> bool:
    """Whether the score is short of the threshold; without one, whether it has not risen or all returns are alike and
    below the highest. Certainty is a fault of such an agent alone."""
    score, past = row.get("rollout/ep_rew_mean"), known.returns
    if score is None or known.threshold is not None:
        return behind(row, known)
    if row.get("rollout/ep_rew_min") == row.get("rollout/ep_rew_max") and score < past.get("highest", score):
        return True
    return score - past.get("first", score) <= NO_RISE * past.get("noise", 0.0)


def gradient_steps(config: RunConfig) -> float:
    """Per million env steps."""
    epochs, size = config.algo.passes(config.rollout_steps)
    return 1e6 * epochs / size


def is_fed(known: Known, config: RunConfig) -> bool:
    usual = known.tuned
    return usual is None or gradient_steps(config) >= gradient_steps(usual)
