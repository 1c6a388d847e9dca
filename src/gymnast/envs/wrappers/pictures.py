"""Smaller pictures: one channel instead of three, fewer pixels."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.envs.spaces import is_channels_last
from gymnast.envs.wrappers.base import ObservationWrapper
from gymnast.envs.wrappers.params import Between

_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)  # how bright an eye sees red, green and blue (ITU-R BT.601)


class PictureWrapper(ObservationWrapper):
    """Changes every picture [H, W, C] of bytes; `show` says what comes out."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        if not is_channels_last(env.observation_space):
            raise self.refuse(
                f"needs pictures [height, width, channels] of bytes; this env has {env.observation_space}."
            )
        self.source: tuple[int, ...] = env.observation_space.shape or ()

    def show(self, *shape: int) -> None:
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)


class Grayscale(PictureWrapper):
    """[H, W, 3] becomes [H, W, 1]."""

    name = "grayscale"

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        if self.source[2] != 3:
            raise self.refuse(f"needs red, green and blue; this env's pictures have {self.source[2]} channels.")
        self.show(*self.source[:2], 1)

    def change(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.rint(observation @ _LUMINANCE).astype(np.uint8)[..., None]


class Resize(PictureWrapper):
    """Every new pixel is the mean of the area it covers in the old picture."""

    name = "resize"

    def __init__(
        self, env: gym.Env[Any, Any], height: Annotated[int, Between(1)], width: Annotated[int, Between(1)]
    ) -> None:
        super().__init__(env)
        self._rows, self._columns = _coverage(self.source[0], height), _coverage(self.source[1], width)
        self.show(height, width, self.source[2])

    def change(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        height, width, channels = self.source
        lower = (self._rows @ observation.reshape(height, width * channels)).reshape(-1, width, channels)
        return np.rint(self._columns @ lower).astype(np.uint8)


def _coverage(source: int, target: int) -> NDArray[np.float32]:
    """[target, source]: which share of each new pixel lies in each old one, along one axis."""
    edges = np.arange(target + 1) * source / target
    old = np.arange(source)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    return (np.maximum(overlap, 0.0) * target / source).astype(np.float32)
