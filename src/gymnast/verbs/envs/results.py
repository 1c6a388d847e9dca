"""What stepping an env with random actions shows: samples of numbers, rewards, episodes, seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Distribution:
    """All None where there is no number."""

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    q25: float | None = None
    median: float | None = None
    q75: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Any) -> Distribution:
        if not len(values):
            return cls()
        array = np.asarray(values, np.float64)
        return cls(*map(float, (array.mean(), array.std(), *np.quantile(array, [0, 0.25, 0.5, 0.75, 1]))))


@dataclass(frozen=True)
class Outliers:
    beyond: float  # standard deviations from the mean
    count: int
    fraction: float
    furthest: float


@dataclass(frozen=True)
class Bin:
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Rewards:
    """Of all steps, as the learner gets them before its own scaling."""

    each: Distribution
    finite: bool
    zero_fraction: float
    samples_per_reward: float | None  # None: no reward was seen
    steps_between_rewards: Distribution
    outliers: Outliers
    histogram: list[Bin]

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return data.pop("each") | data


@dataclass(frozen=True)
class Episodes:
    count: int
    terminated: int
    truncated: int
    returns: Distribution
    length: Distribution

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return data | {"return": data.pop("returns")}


@dataclass(frozen=True)
class Transitions:
    """How much of what the envs show is new."""

    distinct: float  # share of all
    distinct_at_once: float  # share of those at one moment


@dataclass(frozen=True)
class Parallel:
    """How many envs differ under the same actions."""

    steps: int
    first_observations: int
    trajectories: int


@dataclass(frozen=True)
class Seeding:
    same_seed_same: bool
    differs_from_step: int | None
    other_seed_differs: bool
