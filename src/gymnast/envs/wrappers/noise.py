"""Noise on what is seen and on what is done. Part of the task unless `training_only: true` leaves it out of
evaluation and play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import RandomWrapper
from gymnast.envs.wrappers.params import Between


class ObservationNoise(RandomWrapper):
    """Adds independent Gaussian noise of standard deviation `std` to every number of a float observation."""

    name = "observation_noise"

    def __init__(self, env: gym.Env[Any, Any], std: Annotated[float, Between(0)], training_only: bool = False) -> None:
        super().__init__(env)
        self.std, self.training_only = std, training_only
        space = env.observation_space
        if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind != "f":
            raise self.refuse(f"needs float observations; this env has {space}. Put flatten or one_hot before it.")
        self._dtype = space.dtype
        # noise leaves any bounds, so the space must not claim them
        self.observation_space = spaces.Box(-np.inf, np.inf, space.shape, space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return self._noisy(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._noisy(observation), reward, terminated, truncated, info

    def _noisy(self, observation: Any) -> Any:
        return (observation + self.rng.normal(0.0, self.std, np.shape(observation))).astype(self._dtype)


class ActionNoise(RandomWrapper):
    """Continuous actions: Gaussian noise of `std`, clipped to the action's bounds. Others: with probability `p` a
    random action."""

    name = "action_noise"
    keeps_masks = False

    def __init__(
        self,
        env: gym.Env[Any, Any],
        std: Annotated[float, Between(0)] | None = None,
        p: Annotated[float, Between(0, 1)] | None = None,
        training_only: bool = False,
    ) -> None:
        super().__init__(env)
        self.std, self.p, self.training_only = std, p, training_only
        continuous = isinstance(env.action_space, spaces.Box)
        if continuous and std is None:
            raise self.refuse(f"continuous actions take std, not p={p}.")
        if not continuous and p is None:
            raise self.refuse(f"{type(env.action_space).__name__} actions take p, not std={std}.")

    @staticmethod
    def rule(kwargs: Mapping[str, Any]) -> str | None:
        given = [key for key in ("std", "p") if kwargs.get(key) is not None]
        return None if len(given) == 1 else f"give std (continuous actions) or p (others), one of them; got {given}."

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        space: Any = self.env.action_space
        if self.std is not None:
            noisy = action + self.rng.normal(0.0, self.std, space.shape)
            return self.env.step(np.clip(noisy, space.low, space.high).astype(space.dtype))
        if self.p is not None and self.rng.random() < self.p:
            action = self._random_action(space)
        return self.env.step(action)

    def _random_action(self, space: Any) -> Any:
        if isinstance(space, spaces.Discrete):
            return int(space.start + self.rng.integers(space.n))
        if isinstance(space, spaces.MultiDiscrete):
            return space.start + self.rng.integers(space.nvec)
        return self.rng.integers(0, 2, space.shape).astype(space.dtype)
