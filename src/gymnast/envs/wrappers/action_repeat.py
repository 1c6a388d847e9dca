"""The agent itself decides how long to stay with an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from gymnast.envs.wrappers.base import NamedWrapper


class ActionRepeat(NamedWrapper):
    """Action i + n * k of the agent is action i of the env's n, `repeats[k]` times in a row; rewards are summed.

    Stops where the episode ends. A repetition that is not the agent's choice is frame_skip.
    """

    name = "action_repeat"
    keeps_masks = False

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
        total = 0.0
        for _ in range(self.repeats[choice]):
            observation, reward, terminated, truncated, info = self.env.step(chosen + self._start)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info
