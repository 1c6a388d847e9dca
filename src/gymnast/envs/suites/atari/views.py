"""What of a game an agent sees after each of its decisions: pictures, RAM, or objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.envs.suites.atari.table import CELLS
from gymnast.envs.suites.atari.task import AtariTask

if TYPE_CHECKING:
    from gymnast.envs.suites.atari.env import AtariGame


class View(Protocol):
    space: spaces.Space[Any]

    def start(self) -> NDArray[Any]:
        """The first observation of an episode."""

    def frame(self, left: int) -> None:
        """After a frame; so many of the decision are left."""

    def observe(self, key: int) -> NDArray[Any]:
        """After a decision: the key of the game that was held."""


def view_of(game: AtariGame, task: AtariTask) -> View:
    if task.observation == "ram":
        return RamView(game, task)
    return ObjectsView(game, task) if task.observation == "objects" else PictureView(game, task)


class PictureView:
    """Two frames pooled, and pictures of them: [stack, height, width] uint8."""

    def __init__(self, game: AtariGame, task: AtariTask) -> None:
        from gymnast.envs.suites.atari.pictures import Pictures

        rgb = task.observation == "rgb"
        self._look = game.ale.getScreenRGB if rgb else game.ale.getScreenGrayscale
        self._pool = task.max_pool
        # the last frame of a step, and the one before it
        self._screens = np.zeros((2, *game.screen, *((3,) if rgb else ())), np.uint8)
        self._pictures = Pictures(1, game.screen, task)
        self._shown_actions = len(game.actions) if task.show_action else 0
        self.space: spaces.Space[Any] = spaces.Box(0, 255, self._pictures.obs.shape[1:], np.uint8)

    def start(self) -> NDArray[Any]:
        self._look(self._screens[0])
        self._screens[1].fill(0)
        self._pictures.start(self._screens[:1], np.ones(1, np.bool_))
        return self._pictures.obs[0].copy()

    def frame(self, left: int) -> None:
        if left < 2:
            self._look(self._screens[left])

    def observe(self, key: int) -> NDArray[Any]:
        if self._pool:
            np.maximum(self._screens[0], self._screens[1], out=self._screens[0])
        self._pictures.add(self._screens[:1])
        self._pictures.mark(np.array([key]), self._shown_actions)
        return self._pictures.obs[0].copy()


class _Numbers:
    """Lists of numbers, the latest last. No screen is looked at."""

    def __init__(self, game: AtariGame, task: AtariTask, low: NDArray[Any], high: NDArray[Any]) -> None:
        self._ram = game.ale.getRAM
        self._seen = np.zeros((task.stack, len(low)), np.float32)
        low, high = (np.tile(bound.astype(np.float32), task.stack) for bound in (low, high))
        self.space: spaces.Space[Any] = spaces.Box(low, high, dtype=np.float32)

    def frame(self, left: int) -> None:
        pass

    def _first(self, seen: NDArray[Any]) -> NDArray[Any]:
        self._seen.fill(0)
        return self._next(seen)

    def _next(self, seen: NDArray[Any]) -> NDArray[Any]:
        self._seen[:-1] = self._seen[1:]
        self._seen[-1] = seen
        return self._seen.ravel().copy()


class RamView(_Numbers):
    """The bytes, or the task's `cells` of them, 0 to 255, as numbers that an agent can normalise. With `changes` then
    by how much each went up or down since the last decision; bytes wrap around, so from 255 to 1 is 2; and where that
    is more than the number of `changes`, 0. Then the task's `differences`, and with `show_action` a 1 for the action
    chosen last."""

    def __init__(self, game: AtariGame, task: AtariTask) -> None:
        self._shown_actions = len(game.actions) if task.show_action else 0
        self._cells, self._changes = np.array(task.cells or range(CELLS)), task.changes
        some = task.differences
        self._of, self._to = (np.array([getattr(one, key) or 0 for one in some], int) for key in ("of", "to"))
        self._to_byte = np.array([one.number is None for one in some], np.bool_)
        self._numbers = np.array([one.number or 0 for one in some], np.float32)
        self._within = np.array([one.within for one in some], np.float32)
        self._most = 128 if isinstance(task.changes, bool) else task.changes
        n, bounds, most, shown = len(self._cells), self._within, self._most, self._shown_actions
        low, high = (
            np.concatenate((np.full(n, byte), np.full(n * bool(task.changes), change), cut, np.full(shown, last)))
            for byte, change, cut, last in ((0, -most, -bounds, 0), (255, min(127, most), bounds, 1))
        )
        super().__init__(game, task, low, high)
        self._before = np.zeros(n, np.uint8)

    def start(self) -> NDArray[Any]:
        self._before = self._ram()[self._cells]
        return self._first(self._read(None))

    def observe(self, key: int) -> NDArray[Any]:
        return self._next(self._read(key))

    def _read(self, key: int | None) -> NDArray[Any]:
        ram = self._ram()
        seen, parts = ram[self._cells], []
        if self._changes:
            moved = (seen - self._before).view(np.int8).astype(np.float32)
            parts.append(np.where(np.abs(moved) > self._most, 0, moved))
            self._before = seen
        if len(self._within):
            apart = ram[self._of].astype(np.float32) - np.where(self._to_byte, ram[self._to], self._numbers)
            parts.append(np.clip(apart, -self._within, self._within))
        if self._shown_actions:
            parts.append(np.arange(self._shown_actions) == key)  # FIRE after a lost life may be none of the agent's
        return np.concatenate((seen, *parts), dtype=np.float32) if parts else seen


class ObjectsView(_Numbers):
    """What the task's table says of the RAM."""

    def __init__(self, game: AtariGame, task: AtariTask) -> None:
        from gymnast.envs.suites.atari.reader import TableReader

        assert task.table is not None  # the task was checked
        self._reader = TableReader(task.table, game.get_action_meanings())
        self._n_actions = len(game.actions)
        super().__init__(game, task, self._reader.space.low, self._reader.space.high)

    def start(self) -> NDArray[Any]:
        return self._first(self._reader.start(self._ram()))

    def observe(self, key: int) -> NDArray[Any]:
        return self._next(self._reader.read(self._ram(), key if key < self._n_actions else None))
