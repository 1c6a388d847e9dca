"""Any observation as one vector."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import NamedWrapper


class Flatten(NamedWrapper):
    """Dict, Tuple, images, discrete (one-hot) and the rest, as one float32 vector; Dict entries in key order."""

    name = "flatten"
    keeps_numbers = False
    is_transparent = True

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._source = env.observation_space
        flat = spaces.flatten_space(self._source)
        if not isinstance(flat, spaces.Box):
            raise self.refuse(f"{self._source} has no fixed length.")
        self.observation_space = spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._flat(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._flat(observation), reward, terminated, truncated, info

    def _flat(self, observation: Any) -> Any:
        return np.asarray(spaces.flatten(self._source, observation), dtype=np.float32)
