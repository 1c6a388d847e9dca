"""Envs with one skill each: what fails on one of them is broken in a way that can be named."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Probe(gym.Env[Any, Any]):
    """Observes one number; subclasses say what happens."""

    observation_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)

    def observe(self, value: float) -> np.ndarray:
        return np.array([value], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.first(), {}

    def first(self) -> Any:
        return self.observe(0.0)


class ConstantReward(Probe):
    """One step, reward 1, whatever is done: the value is 1."""

    def step(self, action: Any) -> Step:
        return self.observe(0.0), 1.0, True, False, {}


class TwoStates(Probe):
    """Two steps, reward 1 at the end: the second state is worth 1, the first gamma."""

    def first(self) -> Any:
        self.second = False
        return self.observe(0.0)

    def step(self, action: Any) -> Step:
        ended, self.second = self.second, True
        return self.observe(1.0), float(ended), ended, False, {}


class ObservationTellsAction(Probe):
    """One step; the sign of the observation says which action is paid."""

    def first(self) -> Any:
        self.sign = int(self.np_random.integers(2))
        return self.observe(2.0 * self.sign - 1)

    def step(self, action: Any) -> Step:
        return self.observe(0.0), float(action == self.sign), True, False, {}


class MemoryCue(Probe):
    """The cue is shown once, then hidden; the action after that must match it."""

    def first(self) -> Any:
        self.sign, self.hidden = int(self.np_random.integers(2)), False
        return self.observe(2.0 * self.sign - 1)

    def step(self, action: Any) -> Step:
        if self.hidden:
            return self.observe(0.0), float(action == self.sign), True, False, {}
        self.hidden = True
        return self.observe(0.0), 0.0, False, False, {}


class Target(Probe):
    """One step; the reward is how near the action is to a fixed target, 1 at best."""

    def __init__(self, kind: str) -> None:
        spaces = {
            "multi_discrete": (gym.spaces.MultiDiscrete([3, 4]), np.array([2, 1])),
            "multi_binary": (gym.spaces.MultiBinary(3), np.array([1, 0, 1])),
            "box": (gym.spaces.Box(0.0, 10.0, (2,)), np.array([3.0, 8.0])),
        }
        self.action_space, self.target = spaces[kind]
        self.scale = 10.0 if kind == "box" else 1.0

    def step(self, action: Any) -> Step:
        if self.scale == 1.0:
            return self.observe(0.0), float(np.mean(np.asarray(action) == self.target)), True, False, {}
        distance = float(np.mean(np.abs(np.asarray(action) - self.target))) / self.scale
        return self.observe(0.0), 1.0 - distance, True, False, {}
