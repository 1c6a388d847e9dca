"""Wrappers that change what the agent does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import NamedWrapper, RandomWrapper
from gymnast.envs.wrappers.params import Between


class ActionRemap(NamedWrapper):
    """Action i of the agent is `actions[i]` of the env: a subset of Discrete, or button combinations of MultiBinary and
    MultiDiscrete, or chosen points of Box. An action mask of a Discrete env is reduced to the listed actions."""

    name = "action_remap"
    is_transparent = True

    def __init__(self, env: gym.Env[Any, Any], actions: list[Any]) -> None:
        super().__init__(env)
        source = env.action_space
        if not actions:
            raise self.refuse("actions is empty; list at least one action of the env.")
        self._discrete = isinstance(source, spaces.Discrete)
        self.actions: list[Any] = []
        for action in actions:
            try:
                value = action if self._discrete else np.array(action, dtype=source.dtype)
            except (TypeError, ValueError) as error:
                raise self.refuse(f"actions: {action!r} is not an action of {source}.") from error
            if not source.contains(value):
                raise self.refuse(f"actions: {action!r} is not an action of {source}.")
            self.actions.append(value)
        self.action_space = spaces.Discrete(len(actions))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._remapped(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        chosen = self.actions[int(action)]
        observation, reward, terminated, truncated, info = self.env.step(chosen if self._discrete else chosen.copy())
        return observation, reward, terminated, truncated, self._remapped(info)

    def _remapped(self, info: dict[str, Any]) -> dict[str, Any]:
        if "action_mask" not in info:
            return info
        info = dict(info)
        mask = info.pop("action_mask")
        if self._discrete:
            start = int(self.env.action_space.start)  # type: ignore[attr-defined]
            info["action_mask"] = np.asarray(mask)[[action - start for action in self.actions]]
        return info


class RepeatingWrapper(NamedWrapper):
    """Several steps of the env for one decision. Stops where the episode ends; rewards are summed."""

    keeps_masks = False

    def repeat(self, action: Any, times: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        total = 0.0
        for _ in range(times):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class ActionRepeat(RepeatingWrapper):
    """Action i + n * k of the agent is action i of the env's n, `repeats[k]` times in a row.

    A repetition that is not the agent's choice is frame_skip.
    """

    name = "action_repeat"

    def __init__(self, env: gym.Env[Any, Any], repeats: list[int]) -> None:
        super().__init__(env)
        source = env.action_space
        if not isinstance(source, spaces.Discrete):
            raise self.refuse(f"needs Discrete actions; this env has {source}. Put action_remap before it.")
        self.repeats = repeats
        self._n, self._start = int(source.n), int(source.start)
        self.action_space = spaces.Discrete(self._n * len(repeats))

    @staticmethod
    def rule(kwargs: Mapping[str, Any]) -> str | None:
        repeats = kwargs["repeats"]
        whole = all(isinstance(times, int) and not isinstance(times, bool) and times >= 1 for times in repeats)
        if repeats and whole and len(set(repeats)) == len(repeats):
            return None
        return f"repeats is {repeats!r} and must list different whole numbers from 1, like [1, 4]."

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        choice, chosen = divmod(int(action), self._n)
        return self.repeat(chosen + self._start, self.repeats[choice])


class FrameSkip(RepeatingWrapper, RandomWrapper):
    """Repeats each action n times, or a random number of times from low to high (both included).

    Part of the task unless `training_only: true` leaves it out of evaluation and play.
    """

    name = "frame_skip"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        n: Annotated[int, Between(1)] | None = None,
        low: Annotated[int, Between(1)] | None = None,
        high: Annotated[int, Between(1)] | None = None,
        training_only: bool = False,
    ) -> None:
        super().__init__(env)
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
        return self.repeat(action, times)


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
        self.p = p
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._last = None
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._last is None or self.rng.random() >= self.p:
            self._last = np.array(action) if isinstance(action, np.ndarray) else action
        return self.env.step(self._last)


class ActionNoise(RandomWrapper):
    """Continuous actions: Gaussian noise of `std`, clipped to the action's bounds. Others: with probability `p` a
    random action.

    Part of the task unless `training_only: true` leaves it out of evaluation and play.
    """

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
        self.std, self.p = std, p
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
