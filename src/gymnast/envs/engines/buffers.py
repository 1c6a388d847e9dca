"""The arrays of a step, allocated once: in the process's own memory or in memory that it shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure
from gymnast.envs.spaces import ObsLayout
from gymnast.envs.types import EpisodeRecord, NewArray, StepBatch

LARGEST = math.sqrt(np.finfo(np.float32).max)  # larger numbers have no finite square: no network can learn from them
Who = Callable[[int], str]  # which env a row is of, and where in its episode it is


class Buffers(StepBatch):
    """What an engine writes its steps into: every batch it gives has these arrays, and episodes of its own."""

    __slots__ = ()

    @classmethod
    def allocate(cls, layout: ObsLayout, n: int, mask_size: int | None, new: NewArray = np.zeros) -> Buffers:
        """`new`: makes each array, always in the same order; not np.zeros where the memory is shared."""
        return cls(
            obs=layout.allocate(n, new),
            final_obs=layout.allocate(n, new),
            episodes=[],
            reward=new((n,), np.float32),
            terminated=new((n,), np.bool_),
            truncated=new((n,), np.bool_),
            mask=None if mask_size is None else new((n, mask_size), np.bool_),
        )

    def rows(self, start: int, stop: int) -> Buffers:
        """The same memory, for the envs from start to stop."""
        part = slice(start, stop)
        return Buffers(
            {name: array[part] for name, array in self.obs.items()},
            self.reward[part],
            self.terminated[part],
            self.truncated[part],
            {name: array[part] for name, array in self.final_obs.items()},
            [],
            None if self.mask is None else self.mask[part],
        )

    def clear(self) -> None:
        """No reward, no end: what a batch says after a reset."""
        self.reward.fill(0.0)
        self.terminated.fill(False)
        self.truncated.fill(False)

    def batch(self, episodes: list[EpisodeRecord]) -> StepBatch:
        return StepBatch(self.obs, self.reward, self.terminated, self.truncated, self.final_obs, episodes, self.mask)

    def refuse_nonfinite(self, who: Who) -> None:
        """Stops at the first observation or reward that is not finite, naming the env it came from."""
        with np.errstate(over="ignore"):
            suspicious = not math.isfinite(self.reward.dot(self.reward))  # one cheap sum; the search only after it
            for name, array in self.obs.items():
                refuse_bad(array, name, who)
        if suspicious:
            for row in np.flatnonzero(~np.isfinite(self.reward)).tolist():
                raise EnvFailure(f"{who(row)} gave the reward {self.reward[row]}.")


def refuse_bad(array: NDArray[Any], name: str, who: Who) -> None:
    """Stops at an observation that is NaN, infinite or too large to compute with."""
    # one cheap sum of squares, which is finite only if every number in it is; the search only after it
    if array.dtype.kind != "f" or math.isfinite(np.vdot(array, array)):
        return
    for row in range(len(array)):
        found = array[row].ravel()
        for kind, bad in (("NaN", np.isnan(found)), ("", ~(np.abs(found) < LARGEST))):
            if bad.any():
                value = found[bad.argmax()]
                advice = "" if kind or math.isinf(value) else ", too large to learn from: scale it by a wrapper"
                raise EnvFailure(f"{who(row)} gave {kind or f'{value:g}'} in the observation {name!r}{advice}.")
