"""What a leaf of an observation is, to those who make envs and to those who read them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

MARK = 1 / 40  # of a picture's width, at its right edge: there a mark may say which action was chosen before it
CONTRAST = 48  # between a mark and the picture below it; less than most objects have, so that marks do not hide them


def is_picture(space: gym.Space[Any]) -> bool:
    """Bytes in three axes, channels first by the time they are a leaf."""
    return isinstance(space, gym.spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def mark_columns(width: int) -> slice:
    return slice(width - max(1, round(MARK * width)), width)


def mark_rows(height: int, n_actions: int) -> list[slice]:
    """Where the mark of each action is."""
    return [slice(height * i // n_actions, height * (i + 1) // n_actions) for i in range(n_actions)]


def is_board(space: gym.Space[Any]) -> bool:
    """Bits in three axes: rows, columns, kinds of objects. As a leaf, for torch's sake, bits are int8 of 0..1."""
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 3:
        return False
    return space.dtype == np.bool_ or (space.dtype == np.int8 and space.low.min() == 0 and space.high.max() == 1)


def is_normalizable(space: gym.Space[Any]) -> bool:
    """Real numbers, and whole ones that count something. Bytes are scaled to 0..1 anyway, bits are left as they are."""
    if not isinstance(space, gym.spaces.Box) or space.dtype == np.uint8:
        return False
    return np.issubdtype(space.dtype, np.floating) or bool(np.any(space.high.astype(float) - space.low > 1))
