"""Numbers of the observation that the agent does not see."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import NamedWrapper


class DropComponents(NamedWrapper):
    """Leaves out the numbers at `indices` of a vector: velocities, for example, so that a task needs a memory."""

    name = "drop_components"
    keeps_numbers = False

    def __init__(self, env: gym.Env[Any, Any], indices: list[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise self.refuse(f"needs a vector of numbers; this env's observation is {space}. Put flatten before it.")
        beyond = [index for index in indices if not 0 <= index < space.shape[0]]
        if beyond or len(set(indices)) >= space.shape[0]:
            most = space.shape[0] - 1
            raise self.refuse(f"indices is {indices}; it must be some of 0 to {most}, and leave at least one.")
        self._kept = np.setdiff1d(np.arange(space.shape[0]), indices)
        self.observation_space = spaces.Box(space.low[self._kept], space.high[self._kept], dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation[self._kept], info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation[self._kept], reward, terminated, truncated, info
