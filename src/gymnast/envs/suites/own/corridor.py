"""A corridor whose goal is shown only at the start: the smallest task that needs a memory."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.core.errors import UserError


class Corridor(gym.Env[Any, Any]):
    """The first observation shows the side of the goal; then `length` steps lead to a fork, where the last action
    chooses a side: 1 for the goal's, -1 for the other. On the way actions change nothing.

    Without a memory (or one that reaches back less than `length` steps) nothing is better than chance, a mean of 0.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012, as gymnasium declares it

    def __init__(self, length: int = 10, render_mode: str | None = None) -> None:
        if length < 1:
            raise UserError(f"env.kwargs: length is {length} and must be at least 1.")
        self.length, self.render_mode = length, render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._goal = self._at = 0
        self._chosen: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._goal, self._at, self._chosen = int(self.np_random.integers(2)), 0, None
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ended = self._at == self.length
        self._chosen = int(action) if ended else None
        reward = (1.0 if action == self._goal else -1.0) if ended else 0.0
        self._at = min(self._at + 1, self.length)
        return self._observation(), reward, ended, False, {}

    def _observation(self) -> Any:
        shown = (1.0 if self._goal else -1.0) if self._at == 0 else 0.0
        return np.array([shown, self._at / self.length], np.float32)

    def render(self) -> Any:
        """A row of cells with the agent in white; the goal green; the wrong side red once it was chosen."""
        cells = np.full((3, self.length + 2, 3), 40, np.uint8)
        cells[1] = 90
        cells[(0, 2)[self._goal], -1] = (40, 160, 60)
        row, column = (1, self._at) if self._chosen is None else ((0, 2)[self._chosen], self.length + 1)
        if self._chosen is not None and self._chosen != self._goal:
            cells[row, column] = (200, 60, 50)
        else:
            cells[row, column] = (240, 240, 240)
        return np.kron(cells, np.ones((24, 24, 1), np.uint8))
