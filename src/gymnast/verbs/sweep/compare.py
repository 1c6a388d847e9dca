"""Two configs on common seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gymnast.core.statistics import Estimate, improvement

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """By how much a config is better than another one on the same seeds."""

    difference: Estimate  # mean of the paired differences, with Student's 95 % interval
    chance: Estimate  # that a run of the first is better than one of the second
    pairs: int

    @property
    def better(self) -> bool:
        return self.difference.low > 0


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """By seed: ours[i] and theirs[i] had the same one.

    The interval is Student's: the percentiles of the bootstrap are too narrow for five pairs.
    """
    differences = np.asarray(ours, float) - np.asarray(theirs, float)
    mean = float(differences.mean())
    half = math.inf
    if len(differences) > 1:
        from scipy.stats import t

        quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1))
        half = quantile * float(differences.std(ddof=1)) / math.sqrt(len(differences))
    estimate = Estimate(mean, mean - half, mean + half)
    return Comparison(estimate, Estimate.of(improvement, ours, theirs), len(differences))


def front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which of these (score, seconds) no other one beats in both."""
    return [
        not any(other >= score and took <= seconds and (other, took) != (score, seconds) for other, took in points)
        for score, seconds in points
    ]
