"""Observations scaled by fixed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import NamedWrapper


class RescaleObservation(NamedWrapper):
    """(observation - mean) / std; without them, the space's own bounds become -1 and 1.

    Nothing is learned, so there is nothing to save: agent.normalize_obs is the one that learns its numbers.
    """

    name = "rescale_observation"
    keeps_numbers = False

    def __init__(
        self, env: gym.Env[Any, Any], mean: list[float] | float | None = None, std: list[float] | float | None = None
    ) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind != "f":
            raise self.refuse(f"needs float observations; this env has {space}. Put flatten or one_hot before it.")
        if mean is None or std is None:
            if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
                raise self.refuse(f"{space} has no bounds to scale by; give mean and std.")
            self._centre = (space.low.astype(np.float64) + space.high) / 2.0
            self._spread = (space.high.astype(np.float64) - space.low) / 2.0
        else:
            self._centre, self._spread = np.asarray(mean, np.float64), np.asarray(std, np.float64)
        for given, values in (("mean", self._centre), ("std", self._spread)):
            if values.shape not in ((), space.shape):
                raise self.refuse(f"{given} has the shape {values.shape}; an observation has {space.shape}.")
        if not (self._spread > 0.0).all():
            raise self.refuse(f"std is {std}; every number of it must be positive.")
        self.observation_space = spaces.Box(self._scaled(space.low), self._scaled(space.high), dtype=np.float32)

    @staticmethod
    def rule(kwargs: Mapping[str, Any]) -> str | None:
        given = [key for key in ("mean", "std") if kwargs.get(key) is not None]
        for key in given:
            values = kwargs[key] if isinstance(kwargs[key], list) else [kwargs[key]]
            if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
                return f"{key} is {kwargs[key]!r} and must be numbers."
        return "give mean and std, or neither." if len(given) == 1 else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._scaled(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._scaled(observation), reward, terminated, truncated, info

    def _scaled(self, observation: Any) -> Any:
        return ((observation - self._centre) / self._spread).astype(np.float32)
