"""A limit on the agent's decisions."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym

from gymnast.envs.wrappers.base import NamedWrapper
from gymnast.envs.wrappers.params import Between


class TimeLimit(NamedWrapper):
    """Truncates after `steps` steps as counted where it stands: above a frame skip decisions, below it env steps.

    The env's own limit stays as it is; env.max_episode_steps replaces that one.
    """

    name = "time_limit"
    is_transparent = True

    def __init__(self, env: gym.Env[Any, Any], steps: Annotated[int, Between(1)]) -> None:
        super().__init__(env)
        self.steps = steps
        self._taken = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._taken = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._taken += 1
        return observation, reward, terminated, truncated or self._taken >= self.steps, info
