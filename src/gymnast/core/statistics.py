"""What a handful of seeds says: robust means with intervals, chances of being better, areas under curves.

Every function takes runs along the last axis, so that one call serves a sample and all its resamples at once. A sample
is resampled within itself alone: with several of them (tasks, or two sides) that is the stratified bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 4_000
MANY = 2_000  # values, of which a mean with random weights is as good as normal
CONFIDENCE = 0.95

Array = NDArray[np.float64]
Statistic = Callable[..., Any]


def iqm(scores: ArrayLike) -> Any:
    """Interquartile mean: the mean of what is left without the lowest and the highest quarter (rounded down)."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def mean(scores: ArrayLike) -> Any:
    return np.asarray(scores, dtype=np.float64).mean(axis=-1)


def improvement(ours: ArrayLike, theirs: ArrayLike, *more: ArrayLike) -> Any:
    """How likely a run of A is better than one of B; ties count half. Further pairs are tasks, and are averaged."""
    samples = [np.asarray(sample, dtype=np.float64) for sample in (ours, theirs, *more)]
    chances = []
    for a, b in zip(samples[::2], samples[1::2], strict=True):
        a, b = a[..., :, None], b[..., None, :]
        chances.append(((a > b) + 0.5 * (a == b)).mean(axis=(-2, -1)))
    return sum(chances) / len(chances)


def interval(statistic: Statistic, *samples: Sequence[float] | Array) -> tuple[float, float]:
    """Where the statistic lies with 95 % confidence: percentiles of the bootstrap, the same for the same samples."""
    rng = np.random.default_rng(0)
    resamples = [rng.choice(np.asarray(sample, dtype=np.float64), (RESAMPLES, len(sample))) for sample in samples]
    low, high = np.quantile(statistic(*resamples), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def mean_interval(sample: Sequence[float] | Array, low: float, high: float) -> tuple[float, float]:
    """Where the true mean lies with 95 % confidence, for values between low and high.

    Gaffke's bounds: the Bayesian bootstrap (random weights instead of resampling) with one value more at the end of the
    range, which stands for what the sample was too small to show. They hold for few and for skewed values, where the
    percentiles of the bootstrap do not (docs/verdicts.md); of two-valued samples they are Clopper and Pearson's.
    """
    values = np.sort(np.asarray(sample, dtype=np.float64))
    low, high, tail = min(low, values[0]), max(high, values[-1]), (1 - CONFIDENCE) / 2
    with_low, with_high = np.concatenate([[low], values]), np.concatenate([values, [high]])
    if len(values) > MANY:
        error = NormalDist().inv_cdf(1 - tail) / math.sqrt(len(values) + 2)  # that of means by such weights
        lower, upper = with_low.mean() - error * with_low.std(), with_high.mean() + error * with_high.std()
    else:
        weights = np.random.default_rng(0).exponential(size=(RESAMPLES, len(values) + 1))
        weights /= weights.sum(axis=1, keepdims=True)
        lower, upper = np.quantile(weights @ with_low, tail), np.quantile(weights @ with_high, 1 - tail)
    return max(float(lower), float(low)), min(float(upper), float(high))  # weights sum to 1 but for rounding


def widened(low: float, high: float, margin: float = 0.0) -> tuple[float, float]:
    """A range with a margin (a share of it) on both sides. One too narrow to be divided into parts, as that of a
    constant is, becomes as wide as numbers of its size can be told apart, and at least 1 wide."""
    size = max(abs(low), abs(high))
    if high - low > max(1e-12 * size, 1e-200):
        extra = margin * (high - low)
    else:
        extra = max(0.5, 1e-6 * size)
    return low - extra, high + extra


@dataclass(frozen=True)
class Estimate:
    """A statistic and its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, statistic: Statistic, *samples: Sequence[float]) -> Estimate:
        return cls(float(statistic(*samples)), *interval(statistic, *samples))


def area_under_curve(points: Sequence[Sequence[float]]) -> float:
    """The mean height of the lines that join (steps, score): the area by the steps it spans."""
    steps, scores = np.array([point[0] for point in points]), np.array([point[1] for point in points])
    if steps[0] == steps[-1]:
        return float(scores.mean())
    heights = (scores[1:] + scores[:-1]) / 2
    return float((heights * np.diff(steps)).sum() / (steps[-1] - steps[0]))


def median(values: Sequence[float | None]) -> float:
    """Of times: one that was never reached (None) counts as infinity."""
    return float(np.median([np.inf if value is None else value for value in values]))


def rises(scores: Sequence[float]) -> bool:
    """Whether a line through scores in order of time goes up by more than chance: by over three standard errors.

    Of many scores the means of ten stretches count, since neighbours may share episodes.
    """
    values = np.array([part.mean() for part in np.array_split(np.array(scores, np.float64), min(len(scores), 10))])
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = float(time @ values / (time @ time))
    rest = values - values.mean() - slope * time
    error = float(np.sqrt(rest @ rest / (len(values) - 2) / (time @ time)))
    return slope > max(3.0 * error, 1e-9 * float(np.abs(values).max()))
