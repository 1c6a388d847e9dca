"""What of a game an agent sees: pictures, and game variables next to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.envs.suites.atari.pictures import Pictures
from gymnast.envs.suites.vizdoom.task import DoomTask

Bytes = NDArray[np.uint8]
# brightness of what a pixel belongs to; walls, floors and everything else are black
LABELS = {"Monster": 255, "Player": 255, "Projectile": 200, "Weapon": 150, "Ammo": 130, "Health": 110, "Armor": 90}
OTHER_LABEL, NO_LABEL = 60, ("Self",)


class View:
    """Pictures [channels, height, width] with all screens first, then depths, then labels, the latest of each last.

    With game variables it is a dict: `screen` and `variables`. `picture`: what the engine drew last, in colour if it
    draws in colour.
    """

    def __init__(self, task: DoomTask, read: Sequence[str], colour: bool) -> None:
        self._greys = colour and task.observation == "grey"
        more = task.model_copy(update={"observation": "grey"})
        self._screens = Pictures(1, task.screen, task)
        self._depths = Pictures(1, task.screen, more) if task.depth else None
        self._labels = Pictures(1, task.screen, more) if task.labels else None
        self._layers = [layer for layer in (self._screens, self._depths, self._labels) if layer is not None]
        self._shown = [read.index(name) for name in task.variables]
        self.picture: Bytes | None = None
        channels = sum(layer.obs.shape[1] for layer in self._layers)
        screen = spaces.Box(0, 255, (channels, *task.sides), np.uint8)
        self.space: spaces.Space[Any] = screen
        if self._shown:
            numbers = spaces.Box(-np.inf, np.inf, (len(self._shown),), np.float32)
            self.space = spaces.Dict({"screen": screen, "variables": numbers})

    def start(self, state: Any, numbers: list[float]) -> Any:
        for layer in self._layers:
            layer.obs.fill(0)
        return self.observe(state, numbers)

    def observe(self, state: Any, numbers: list[float]) -> Any:
        """Of a game that is over (no state) the pictures stay those that were seen last."""
        if state is not None:
            self.picture = state.screen_buffer
            self._screens.add(grey(self.picture)[np.newaxis] if self._greys else self.picture[np.newaxis])
            if self._depths is not None:
                self._depths.add(state.depth_buffer[np.newaxis])
            if self._labels is not None:
                self._labels.add(by_category(state)[np.newaxis])
        first, *others = self._layers
        seen = np.concatenate([layer.obs[0] for layer in self._layers]) if others else first.obs[0].copy()
        if not self._shown:
            return seen
        return {"screen": seen, "variables": np.array([numbers[i] for i in self._shown], np.float32)}


def grey(picture: Bytes) -> Bytes:
    """As the engine makes its own grey pictures, with its order of additions: no pixel rounds otherwise."""
    red, green, blue = np.moveaxis(picture, -1, 0)
    return (0.21 * red + 0.72 * green + 0.07 * blue).astype(np.uint8)


def by_category(state: Any) -> Bytes:
    """The engine numbers objects, in another way at every moment; here a brightness always means the same."""
    table = np.zeros(256, np.uint8)
    for label in state.labels:
        if label.object_category not in NO_LABEL:
            table[label.value] = LABELS.get(label.object_category, OTHER_LABEL)
    return table[state.labels_buffer]
