"""Wrappers that change what the agent sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import ObservationWrapper, RandomWrapper
from gymnast.envs.wrappers.params import Between


class Flatten(ObservationWrapper):
    """Dict, Tuple, images, discrete (one-hot) and the rest, as one float32 vector; Dict entries in key order."""

    name = "flatten"
    is_transparent = True

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._source = env.observation_space
        try:
            flat = spaces.flatten_space(self._source)
        except NotImplementedError:  # a space of somebody's own
            raise self.refuse(f"{self._source} cannot be made numbers. Drop it by observation_keys before.") from None
        if not isinstance(flat, spaces.Box):
            raise self.refuse(f"{self._source} has no fixed length.")
        self.observation_space = spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)

    def change(self, observation: Any) -> Any:
        return np.asarray(spaces.flatten(self._source, observation), dtype=np.float32)


class OneHot(Flatten):
    """Discrete(n) -> n numbers, MultiDiscrete -> those of each entry one after another, MultiBinary -> its bits."""

    name = "one_hot"

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        space = env.observation_space
        super().__init__(env)
        if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            raise self.refuse(f"needs Discrete, MultiDiscrete or MultiBinary observations; this env has {space}.")


class ObservationKeys(ObservationWrapper):
    """Of a Dict observation the entries to `keep`, in that order, or all but those to `drop`."""

    name = "observation_keys"

    def __init__(self, env: gym.Env[Any, Any], keep: list[str] | None = None, drop: list[str] | None = None) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Dict):
            raise self.refuse(f"needs a Dict observation; this env has {space}.")
        if unknown := [key for key in [*(keep or ()), *(drop or ())] if key not in space.spaces]:
            raise self.refuse(f"the observation has no {', '.join(map(repr, unknown))}. It has {', '.join(space)}.")
        self._kept = keep or [key for key in space if key not in (drop or ())]
        if not self._kept:
            raise self.refuse("nothing is left of the observation.")
        self.observation_space = spaces.Dict({key: space[key] for key in self._kept})

    @staticmethod
    def rule(kwargs: Mapping[str, Any]) -> str | None:
        given = [key for key in ("keep", "drop") if kwargs.get(key)]
        return None if len(given) == 1 else "give keep or drop, one of them, with the keys of the observation."

    def change(self, observation: Any) -> Any:
        return {key: observation[key] for key in self._kept}


class DropComponents(ObservationWrapper):
    """Leaves out the numbers at `indices` of a vector: velocities, for example, so that a task needs a memory."""

    name = "drop_components"

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

    def change(self, observation: Any) -> Any:
        return observation[self._kept]


class RescaleObservation(ObservationWrapper):
    """(observation - mean) / std; without them, the space's own bounds become -1 and 1.

    Nothing is learned, so there is nothing to save: agent.normalize_obs is the one that learns its numbers.
    """

    name = "rescale_observation"

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
            self._scale = (space.high.astype(np.float64) - space.low) / 2.0
        else:
            self._centre, self._scale = np.asarray(mean, np.float64), np.asarray(std, np.float64)
        for given, values in (("mean", self._centre), ("std", self._scale)):
            if values.shape not in ((), space.shape):
                raise self.refuse(f"{given} has the shape {values.shape}; an observation has {space.shape}.")
        if not (self._scale > 0.0).all():
            raise self.refuse(f"std is {std}; every number of it must be positive.")
        self.observation_space = spaces.Box(self.change(space.low), self.change(space.high), dtype=np.float32)

    @staticmethod
    def rule(kwargs: Mapping[str, Any]) -> str | None:
        given = [key for key in ("mean", "std") if kwargs.get(key) is not None]
        for key in given:
            values = kwargs[key] if isinstance(kwargs[key], list) else [kwargs[key]]
            if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
                return f"{key} is {kwargs[key]!r} and must be numbers."
        return "give mean and std, or neither." if len(given) == 1 else None

    def change(self, observation: Any) -> Any:
        return ((observation - self._centre) / self._scale).astype(np.float32)


class ObservationNoise(ObservationWrapper, RandomWrapper):
    """Adds independent Gaussian noise of standard deviation `std` to every number of a float observation.

    Part of the task unless `training_only: true` leaves it out of evaluation and play.
    """

    name = "observation_noise"
    keeps_numbers = True

    def __init__(self, env: gym.Env[Any, Any], std: Annotated[float, Between(0)], training_only: bool = False) -> None:
        super().__init__(env)
        self.std = std
        space = env.observation_space
        if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind != "f":
            raise self.refuse(f"needs float observations; this env has {space}. Put flatten or one_hot before it.")
        self._dtype = space.dtype
        # noise leaves any bounds, so the space must not claim them
        self.observation_space = spaces.Box(-np.inf, np.inf, space.shape, space.dtype)

    def change(self, observation: Any) -> Any:
        return (observation + self.rng.normal(0.0, self.std, np.shape(observation))).astype(self._dtype)
