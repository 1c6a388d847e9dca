"""CartPole that waits 5 ms a step, as an env over a network or behind a simulator does: it needs no processor."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

SECONDS = 0.005


class Waiting(CartPoleEnv):
    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        time.sleep(SECONDS)
        return super().step(action)


gym.register("benchmark/Waiting-v0", Waiting, max_episode_steps=500)
