"""Screens of several games to pictures of bytes: cropped, shrunk, stacked. One implementation for every engine."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.core.observations import CONTRAST, mark_columns, mark_rows

Bytes = NDArray[np.uint8]


class Shown(Protocol):
    """What of a task says how pictures are made."""

    @property
    def observation(self) -> str: ...
    @property
    def crop_rows(self) -> list[int] | None: ...
    @property
    def crop_columns(self) -> list[int] | None: ...
    @property
    def screen_size(self) -> int | list[int]: ...
    @property
    def sides(self) -> tuple[int, int]: ...
    @property
    def stack(self) -> int: ...


class Pictures:
    """`obs`: [n, stack x channels, height, width], the latest picture last."""

    def __init__(self, n: int, screen: tuple[int, int], task: Shown) -> None:
        windows = []
        for key, given, size in zip(("rows", "columns"), (task.crop_rows, task.crop_columns), screen, strict=True):
            first, end = given or (0, size)
            if end > size:
                raise UserError(f"env.kwargs: crop_{key} = {given}: the screen has {size} {key}.")
            windows.append((first, end))
        for key, side, (first, end) in zip(("rows", "columns"), task.sides, windows, strict=True):
            if side > end - first:
                raise UserError(
                    f"env.kwargs: screen_size = {task.screen_size}: {end - first} {key} are shown, and a picture is "
                    "made smaller, not larger."
                )
        self._taps = [_area_taps(*window, side) for window, side in zip(windows, task.sides, strict=True)]
        self._channels = 3 if task.observation == "rgb" else 1
        self.obs: Bytes = np.zeros((n, task.stack * self._channels, *task.sides), np.uint8)

    def start(self, screens: Bytes, which: NDArray[np.bool_]) -> None:
        """These games begin: black before their first picture. The others stay as they are."""
        self.obs[which] = 0
        self._write(screens[which], rows := self.obs[which])
        self.obs[which] = rows

    def add(self, screens: Bytes) -> None:
        """[n, rows, columns] of brightnesses, or [n, rows, columns, 3]: the next picture of every game."""
        self.obs[:, : -self._channels] = self.obs[:, self._channels :]
        self._write(screens, self.obs)

    def mark(self, actions: NDArray[Any], n_actions: int) -> None:
        """Draws over the right edge of every game's latest picture: a mark, lighter than what is there (darker where it
        is bright), at a height that stands for the action chosen before. An action that is not the agent's has none."""
        height, width = self.obs.shape[-2:]
        edge = self.obs[:, -self._channels :, :, mark_columns(width)]
        for action, rows in enumerate(mark_rows(height, n_actions)):
            below = edge[actions == action, :, rows]
            edge[actions == action, :, rows] = np.where(below < 128, below + CONTRAST, below - CONTRAST)

    def _write(self, screens: Bytes, into: Bytes) -> None:
        (row_starts, row_weights), (column_starts, column_weights) = self._taps
        for channel in range(self._channels):
            seen = screens if self._channels == 1 else screens[..., channel]
            out = into[:, channel - self._channels]
            _shrink(seen, row_starts, row_weights, column_starts, column_weights, out)


@njit(cache=True, error_model="numpy")
def _shrink(screens: Any, row_starts: Any, row_weights: Any, column_starts: Any, column_weights: Any, out: Any) -> None:
    """OpenCV's INTER_AREA, with its order of additions, so that not one pixel rounds differently."""
    height, row_taps = row_weights.shape
    width, column_taps = column_weights.shape
    first = row_starts[0]
    narrow = np.empty((row_starts[-1] + row_taps - first, width), np.float32)
    alike = np.empty(len(narrow), np.int64)  # how many rows before each are equal to it
    line = np.empty(width, np.float32)
    repeats = np.zeros(height, np.bool_)  # rows with the weights of the row above
    for row in range(1, height):
        repeats[row] = (row_weights[row] == row_weights[row - 1]).all()
    for game in range(len(screens)):
        for row in range(len(narrow)):
            pixels = screens[game, first + row]
            if row and _equal(pixels, screens[game, first + row - 1]):  # most rows of a screen repeat the last
                narrow[row], alike[row] = narrow[row - 1], alike[row - 1] + 1
                continue
            alike[row] = 0
            for column in range(width):
                begin = column_starts[column]
                total = np.float32(pixels[begin]) * column_weights[column, 0]
                for tap in range(1, column_taps):
                    total += np.float32(pixels[begin + tap]) * column_weights[column, tap]
                narrow[row, column] = total
        for row in range(height):
            begin = row_starts[row] - first
            if (
                row
                and repeats[row]
                and alike[begin + row_taps - 1] >= begin + row_taps - 1 - (row_starts[row - 1] - first)
            ):
                out[game, row] = out[game, row - 1]  # of the same numbers
                continue
            line[:] = narrow[begin] * row_weights[row, 0]
            for tap in range(1, row_taps):
                weight = row_weights[row, tap]
                for column in range(width):
                    line[column] += narrow[begin + tap, column] * weight
            for column in range(width):
                out[game, row, column] = np.uint8(np.rint(line[column]))


@njit(cache=True, error_model="numpy", inline="always")
def _equal(pixels: Any, others: Any) -> bool:
    """In one go: to stop at the first difference, as np.array_equal does, takes longer."""
    different = np.uint8(0)
    for column in range(len(pixels)):
        different |= pixels[column] ^ others[column]
    return different == 0


def _area_taps(first: int, end: int, target: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Of each target pixel: the first source pixel it covers, and the share it has of this and the following ones."""
    source = end - first
    scale = source / target
    taps: list[list[tuple[int, float]]] = []
    for pixel in range(target):
        begin, stop = pixel * scale, (pixel + 1) * scale
        width = min(scale, source - begin)
        last = min(math.floor(stop), source - 1)
        full = min(math.ceil(begin), last)
        covered = [(full - 1, (full - begin) / width)] if full - begin > 1e-3 else []
        covered += [(whole, 1 / width) for whole in range(full, last)]
        covered += [(last, min(stop - last, 1.0, width) / width)] if stop - last > 1e-3 else []
        taps.append(covered)
    most = max(len(covered) for covered in taps)
    starts = np.array([min(covered[0][0], source - most) for covered in taps], np.intp)
    weights = np.zeros((target, most), np.float32)
    for pixel, covered in enumerate(taps):
        for index, share in covered:
            weights[pixel, index - starts[pixel]] = share
    return starts + first, weights
