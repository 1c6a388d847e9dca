"""An env for the golden traces: two choices at a time, each with a mask that changes from step to step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class MultiMasked(gym.Env[Any, Any]):
    """Three choices and two; it pays to match the state, and some choices are masked."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (4,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 2])
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        first = 0 if self.x[0] < -0.3 else 1 if self.x[0] < 0.3 else 2
        reward = float(action[0] == first) + 0.5 * float(action[1] == (self.x[1] > 0))
        self.t += 1
        ended = self.t >= 20 or bool(self.x[2] > 0.95)
        return self.observe(), reward, ended, False, self.info()

    def observe(self) -> Any:
        self.x = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        return self.x

    def info(self) -> dict[str, Any]:
        mask = np.ones(5, bool)
        mask[self.t % 3] = False
        mask[3 + self.t % 2] = self.t % 4 == 0
        return {"action_mask": mask}


gym.register("golden/MultiMasked-v0", "tests.golden_envs:MultiMasked")
