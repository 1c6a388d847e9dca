"""Envs for tests of Studio, found by any process as "tests.studio.envs:studio/NAME"."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m\u202e</script>'


class Hostile(gym.Env[Any, Any]):
    """Its actions have names that a page must show as text, and its failure too."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def get_action_meanings(self) -> list[str]:
        return [HOSTILE, "right"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.fails:
            raise RuntimeError(HOSTILE)
        return np.zeros(1, np.float32), 1.0, False, False, {}


class Endless(Hostile):
    """Is never made. Its process says in a file who it is."""

    def __init__(self) -> None:
        Path(os.environ["STUDIO_TEST_FOLDER"], str(os.getpid())).touch()
        while True:
            time.sleep(1)


gym.register("studio/Endless-v0", "tests.studio.envs:Endless")
gym.register("studio/Hostile-v0", "tests.studio.envs:Hostile", max_episode_steps=5)
gym.register("studio/Failing-v0", "tests.studio.envs:Hostile", kwargs={"fails": True}, max_episode_steps=5)
