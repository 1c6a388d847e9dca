"""One decision for several env steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import gymnasium as gym

from gymnast.envs.wrappers.base import RandomWrapper
from gymnast.envs.wrappers.params import Between


class FrameSkip(RandomWrapper):
    """Repeats each action n times, or a random number of times from low to high (both included).

    Stops where the episode ends; rewards are summed; the last observation is returned. Part of the task unless
    `training_only: true` leaves it out of evaluation and play.
    """

    name = "frame_skip"
    keeps_masks = False

    def __init__(
        self,
        env: gym.Env[Any, Any],
        n: Annotated[int, Between(1)] | None = None,
        low: Annotated[int, Between(1)] | None = None,
        high: Annotated[int, Between(1)] | None = None,
        training_only: bool = False,
    ) -> None:
        super().__init__(env)
        self.training_only = training_only
        self.low: int = n or low or 1
        self.high: int = n or high or self.low

    @staticmethod
    def rule(kwargs: Mapping[str, Any]) -> str | None:
        n, low, high = (kwargs.get(key) for key in ("n", "low", "high"))
        if n is not None and low is None and high is None:
            return None
        if n is not None or low is None or high is None:
            return f"give either n, or both low and high; got {dict(kwargs)}."
        return None if low <= high else f"low is {low} and high is {high}; low must not be above high."

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        times = self.low if self.low == self.high else int(self.rng.integers(self.low, self.high + 1))
        total = 0.0
        for _ in range(times):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info
