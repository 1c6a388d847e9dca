"""Discrete observations as vectors of zeros and ones."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import NamedWrapper


class OneHot(NamedWrapper):
    """Discrete(n) -> n numbers, MultiDiscrete -> those of each entry one after another, MultiBinary -> its bits."""

    name = "one_hot"
    keeps_numbers = False
    is_transparent = True

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.observation_space
        if isinstance(space, spaces.Discrete):
            sizes, starts = np.array([int(space.n)]), np.array([int(space.start)])
        elif isinstance(space, spaces.MultiDiscrete):
            sizes, starts = space.nvec.ravel(), space.start.ravel()
        elif isinstance(space, spaces.MultiBinary):
            sizes, starts = np.array([], dtype=np.int64), np.array([], dtype=np.int64)
        else:
            raise self.refuse(f"needs Discrete, MultiDiscrete or MultiBinary observations; this env has {space}.")
        self._is_binary = isinstance(space, spaces.MultiBinary)
        self._length = int(np.prod(space.shape or ())) if self._is_binary else int(sizes.sum())
        self._offsets = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64) - starts if sizes.size else sizes
        self.observation_space = spaces.Box(0.0, 1.0, (self._length,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._encode(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._encode(observation), reward, terminated, truncated, info

    def _encode(self, observation: Any) -> Any:
        if self._is_binary:
            return np.ravel(observation).astype(np.float32)
        encoded = np.zeros(self._length, np.float32)
        encoded[self._offsets + np.ravel(observation)] = 1.0
        return encoded
