"""What the wrappers share: their name in the config, and randomness that replays with the episode's seed."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed


class NamedWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper of the config. `keeps_masks` False: another action than the chosen one may reach the env.
    `keeps_numbers` False: an observation does not end with the env's own numbers, which reward components read.

    `is_transparent` True: a step of it is one step of the env, with an action that depends on the chosen one alone,
    and what it shows depends on what the env shows then alone. What is known of the env's states holds above it too.
    """

    name: ClassVar[str]
    keeps_masks: ClassVar[bool] = True
    keeps_numbers: ClassVar[bool] = True
    is_transparent: ClassVar[bool] = False

    def refuse(self, problem: str) -> UserError:
        return UserError(f"env.wrappers: {self.name}: {problem}")


class ObservationWrapper(NamedWrapper):
    """Changes every observation, by `change`, and nothing else."""

    keeps_numbers = False

    def change(self, observation: Any) -> Any:
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return self.change(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.change(observation), reward, terminated, truncated, info


class RandomWrapper(NamedWrapper):
    """Draws from `rng`, which starts again from the seed of each episode: the same seed replays the same episode."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        inner, self._depth = env, 0  # two wrappers of one kind draw from different streams
        while isinstance(inner, gym.Wrapper):
            self._depth += type(inner) is type(self)
            inner = inner.env
        self.rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.seed(seed)
        return self.env.reset(seed=seed, options=options)

    def seed(self, seed: int) -> None:
        self.rng = np.random.default_rng(derive_seed(seed, self.name, self._depth))
