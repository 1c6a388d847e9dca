"""The env sometimes repeats the last action instead of taking the new one (Machado et al. 2018)."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym
import numpy as np

from gymnast.envs.wrappers.base import RandomWrapper
from gymnast.envs.wrappers.params import Between


class StickyActions(RandomWrapper):
    """With probability p the action that was executed last is executed again; never at an episode's first step.

    Part of the task unless `training_only: true` leaves it out of evaluation and play.
    """

    name = "sticky_actions"
    keeps_masks = False

    def __init__(
        self, env: gym.Env[Any, Any], p: Annotated[float, Between(0, 1)] = 0.25, training_only: bool = False
    ) -> None:
        super().__init__(env)
        self.p, self.training_only = p, training_only
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._last = None
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._last is None or self.rng.random() >= self.p:
            self._last = np.array(action) if isinstance(action, np.ndarray) else action
        return self.env.step(self._last)
