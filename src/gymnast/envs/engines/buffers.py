"""The arrays of a step, allocated once: in the process's own memory or carved out of a shared block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure
from gymnast.envs.spaces import ObsLayout
from gymnast.envs.types import EpisodeRecord, Obs, StepBatch

_ALIGNMENT = 64  # a cache line, so that two workers never write to the same one


@dataclass(slots=True)
class Buffers:
    obs: Obs
    final_obs: Obs
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    mask: NDArray[np.bool_] | None

    @classmethod
    def allocate(cls, layout: ObsLayout, n: int, mask_size: int | None, memory: Any = None) -> Buffers:
        """`memory`: a writable block of at least `size_of` bytes to live in; None: new arrays."""
        arrays = iter(_carve(layout, n, mask_size, memory))
        obs = {leaf.name: next(arrays) for leaf in layout.leaves}
        final_obs = {leaf.name: next(arrays) for leaf in layout.leaves}
        reward, terminated, truncated = next(arrays), next(arrays), next(arrays)
        return cls(obs, final_obs, reward, terminated, truncated, next(arrays, None))

    @staticmethod
    def size_of(layout: ObsLayout, n: int, mask_size: int | None) -> int:
        return sum(_padded(shape, dtype) for shape, dtype in _specs(layout, n, mask_size))

    def rows(self, start: int, stop: int) -> Buffers:
        """The same memory, for the envs from start to stop."""
        part = slice(start, stop)
        return Buffers(
            {name: array[part] for name, array in self.obs.items()},
            {name: array[part] for name, array in self.final_obs.items()},
            self.reward[part],
            self.terminated[part],
            self.truncated[part],
            None if self.mask is None else self.mask[part],
        )

    def clear(self) -> None:
        """No reward, no end: what a batch says after a reset."""
        self.reward.fill(0.0)
        self.terminated.fill(False)
        self.truncated.fill(False)

    def batch(self, episodes: list[EpisodeRecord]) -> StepBatch:
        return StepBatch(self.obs, self.reward, self.terminated, self.truncated, self.final_obs, episodes, self.mask)

    def refuse_nonfinite(self, env: str, first_env: int = 0) -> None:
        """Stops at the first NaN observation or NaN or infinite reward, naming the env it came from."""
        with np.errstate(over="ignore"):
            suspicious = not math.isfinite(self.reward.dot(self.reward))  # one cheap sum; the search only after it
            for name, array in self.obs.items():
                refuse_nan(array, name, env, first_env)
        if suspicious:
            for row in np.flatnonzero(~np.isfinite(self.reward)):
                raise EnvFailure(f"{env}: env {first_env + row} gave the reward {self.reward[row]}.")


def refuse_nan(array: NDArray[Any], name: str, env: str, first_env: int = 0) -> None:
    # a sum of squares is NaN only if a number in it is: infinities have no signs left to cancel by
    if array.dtype.kind == "f" and math.isnan(np.vdot(array, array)):
        for row in np.flatnonzero(np.isnan(array).any(axis=tuple(range(1, array.ndim)))):
            raise EnvFailure(f"{env}: env {first_env + row} gave NaN in the observation {name!r}.")


def _specs(layout: ObsLayout, n: int, mask_size: int | None) -> Iterator[tuple[tuple[int, ...], np.dtype[Any]]]:
    for _ in ("obs", "final_obs"):
        for leaf in layout.leaves:
            yield (n, *leaf.shape), leaf.dtype
    yield (n,), np.dtype(np.float32)
    yield (n,), np.dtype(np.bool_)
    yield (n,), np.dtype(np.bool_)
    if mask_size is not None:
        yield (n, mask_size), np.dtype(np.bool_)


def _padded(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT


def _carve(layout: ObsLayout, n: int, mask_size: int | None, memory: Any) -> Iterator[NDArray[Any]]:
    offset = 0
    for shape, dtype in _specs(layout, n, mask_size):
        if memory is None:
            yield np.zeros(shape, dtype)
        else:
            yield np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)
            offset += _padded(shape, dtype)
