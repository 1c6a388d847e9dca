"""Which moment a row's numbers are about: those of the background come some rows after it."""

from __future__ import annotations

from collections.abc import Mapping

STEP = "time/total_timesteps"
BY_EVALUATIONS = ("stage", "forgetting")  # are about the agent that was evaluated


def is_late(row: Mapping[str, float]) -> bool:
    """A report of the background on an earlier agent, and nothing else: rows of training have a rate."""
    return bool(row.keys() & {"eval/step", "verdict/step"}) and "time/fps" not in row


def step_of(row: Mapping[str, float], metric: str) -> float:
    """Env steps of the agent that this number is about."""
    subject = metric.partition("/")[0]
    return row.get(f"{'eval' if subject in BY_EVALUATIONS else subject}/step", row.get(STEP, 0.0))
