"""A chosen list of actions instead of all of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.wrappers.base import NamedWrapper


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
