"""The last n observations as one."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.spaces import each_leaf, is_channels_last
from gymnast.envs.wrappers.base import NamedWrapper
from gymnast.envs.wrappers.params import Between


class FrameStack(NamedWrapper):
    """Oldest first; an episode begins with n copies of its first observation.

    Vectors [d] become [n*d]; images, HWC or CHW, become [n*C, H, W]; grey images [H, W] become [n, H, W]; Discrete
    becomes MultiDiscrete [n]; MultiDiscrete and MultiBinary [k] become [n*k]; Dict and Tuple entry by entry.
    """

    name = "frame_stack"

    def __init__(self, env: gym.Env[Any, Any], n: Annotated[int, Between(1, 1024)]) -> None:
        super().__init__(env)
        self.n = n
        self._source = env.observation_space
        self.observation_space = self._stacked_space(self._source)
        self._frames: deque[Any] = deque(maxlen=n)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._frames.extend([each_leaf(self._source, _copy, observation)] * self.n)
        return each_leaf(self._source, _stack, *self._frames), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames.append(each_leaf(self._source, _copy, observation))
        return each_leaf(self._source, _stack, *self._frames), reward, terminated, truncated, info

    def _stacked_space(self, space: gym.Space[Any]) -> gym.Space[Any]:
        if isinstance(space, spaces.Dict):
            return spaces.Dict({key: self._stacked_space(child) for key, child in space.spaces.items()})
        if isinstance(space, spaces.Tuple):
            return spaces.Tuple([self._stacked_space(child) for child in space.spaces])
        if isinstance(space, spaces.Discrete):
            starts = np.full(self.n, int(space.start))
            return spaces.MultiDiscrete(np.full(self.n, int(space.n)), start=starts)
        if isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1:
            return spaces.MultiDiscrete(np.tile(space.nvec, self.n), start=np.tile(space.start, self.n))
        if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
            return spaces.MultiBinary(space.shape[0] * self.n)
        if isinstance(space, spaces.Box):
            low, high = _stack(space, *[space.low] * self.n), _stack(space, *[space.high] * self.n)
            return spaces.Box(low, high, dtype=space.dtype)
        raise self.refuse(f"cannot stack {space}; put flatten before it.")


def _copy(space: gym.Space[Any], observation: Any) -> Any:
    """Envs may reuse the array they return, so what is kept must be a copy."""
    return np.array(observation, dtype=space.dtype)


def _stack(space: gym.Space[Any], *frames: Any) -> Any:
    if is_channels_last(space):
        return np.concatenate([np.moveaxis(frame, -1, 0) for frame in frames])
    is_image = space.dtype == np.uint8 and len(space.shape or ()) == 3
    return np.concatenate(frames) if is_image or len(space.shape or ()) == 1 else np.stack(frames)
