"""What an agent sees of a game after each of its decisions: pictures of its screen."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numba import njit
from numpy.typing import NDArray

from gymnast.envs.suites.atari.pictures import Pictures
from gymnast.envs.suites.retro.task import RetroTask


class View:
    """Two frames pooled, and pictures of them: [stack, height, width] uint8."""

    def __init__(self, screen: tuple[int, ...], task: RetroTask) -> None:
        self._rgb, self._pool = task.observation == "rgb", task.max_pool
        self._rows, self._columns = screen[:2]
        shape = (self._rows, self._columns, 3) if self._rgb else (self._rows, self._columns)
        self._now, self._before = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._seen = np.zeros((1, *shape), np.uint8)
        self._pictures = Pictures(1, (self._rows, self._columns), task)
        self.space: spaces.Space[Any] = spaces.Box(0, 255, self._pictures.obs.shape[1:], np.uint8)

    def start(self, screen: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The first observation of an episode."""
        self.frame(screen)
        self._seen[0] = self._before[:] = self._now
        self._pictures.start(self._seen, np.ones(1, np.bool_))
        return self._pictures.obs[0].copy()

    def frame(self, screen: NDArray[np.uint8]) -> None:
        """One of the last two frames of a decision."""
        self._now, self._before = self._before, self._now
        if screen.shape[:2] != (self._rows, self._columns):
            screen = self._fitted(screen)
        if self._rgb:
            self._now[:] = screen
        else:
            to_grey(screen, self._now)

    def observe(self) -> NDArray[np.uint8]:
        """After a decision."""
        if self._pool:
            np.maximum(self._now, self._before, out=self._seen[0])
        else:
            self._seen[0] = self._now
        self._pictures.add(self._seen)
        return self._pictures.obs[0].copy()

    def _fitted(self, screen: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Some games change their resolution: the corner that both have, and black."""
        fitting = np.zeros((self._rows, self._columns, 3), np.uint8)
        rows, columns = min(len(screen), self._rows), min(screen.shape[1], self._columns)
        fitting[:rows, :columns] = screen[:rows, :columns]
        return fitting


@njit(cache=True, error_model="numpy")
def to_grey(screen: Any, out: Any) -> None:
    """How bright an eye sees red, green and blue (ITU-R BT.601), in 256ths."""
    rows, columns = out.shape
    for row in range(rows):
        for column in range(columns):
            red, green, blue = screen[row, column]
            out[row, column] = (77 * np.int32(red) + 150 * np.int32(green) + 29 * np.int32(blue) + 128) >> 8
