"""Steps of an env with random actions, and what is said of the numbers that come out of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from gymnast.core.seeds import derive_seed
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.play.random_actions import random_actions
from gymnast.verbs.progress import Progress

STATISTICS = ("mean", "std", "min", "q25", "median", "q75", "max")


def random_steps(
    env: VecEnv, steps: int, seed: int, purpose: str, progress: Progress
) -> Iterator[tuple[Any, StepBatch, float]]:
    """Actions, what came of them, and the seconds that the engine took; first the reset, which has no actions."""
    rng = np.random.default_rng(derive_seed(seed, purpose))
    env.action_space.seed(derive_seed(seed, purpose))
    batch = env.reset(derive_seed(seed, "train"))
    yield None, batch, 0.0
    for _ in range(steps):
        actions = random_actions(env, batch.mask, rng)
        before = time.perf_counter()
        batch = env.step(actions)
        yield actions, batch, time.perf_counter() - before
        progress.done()


def distribution(values: Any) -> dict[str, float | None]:
    """All None where there is no number."""
    if not len(values):
        return dict.fromkeys(STATISTICS)
    array = np.asarray(values, np.float64)
    found = (array.mean(), array.std(), *np.quantile(array, [0, 0.25, 0.5, 0.75, 1]))
    return dict(zip(STATISTICS, map(float, found), strict=True))


def endings(episodes: Sequence[EpisodeRecord]) -> dict[str, int]:
    terminated = sum(record.terminated for record in episodes)
    return {"terminated": terminated, "truncated": len(episodes) - terminated}


def fingerprint(*arrays: Any) -> bytes:
    """A short mark of some arrays: the same for the same numbers, another for others."""
    mark = blake2b(digest_size=8)
    for array in arrays:
        mark.update(np.ascontiguousarray(array).tobytes())
    return mark.digest()
