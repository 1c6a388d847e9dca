"""Whether an env repeats its episodes from their seeds, found out in a moment before a run begins."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.config.files import is_preset
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.engines.sync import SyncEngine

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

SEED, STEPS = 1, 64
MAKING = 0.5  # seconds; an env that takes longer to be made is left alone
STEPPING = 0.05  # seconds; then the first of the two ends


def repeats(maker: EnvMaker) -> bool | None:
    """Plays the beginning of an episode twice in an env of its own, with the same actions; None: not known.

    Nothing is played where it would cost time or tell nothing: an env with a preset is known to repeat itself, one that
    is slow to make is left alone, and one that needs a mask or fails is for training to judge.
    """
    if maker.factory is not None or is_preset(maker.config.id) or maker.config.action_masks:
        return None
    began, engine = perf_counter(), None
    try:
        engine = SyncEngine(maker, 1, name=maker.title)
        if perf_counter() - began > MAKING:
            return None
        first = _play(engine, STEPS, perf_counter() + STEPPING)
        again = _play(engine, len(first) - 1, np.inf)
    except (EnvFailure, UserError):
        return None
    finally:
        if engine is not None:
            engine.close()
    pairs = zip(first, again, strict=True)
    return all(np.array_equal(a, b) for one, other in pairs for a, b in zip(one, other, strict=True))


def _play(engine: SyncEngine, steps: int, until: float) -> list[list[Any]]:
    """What an env gave after its reset and in each step."""
    engine.action_space.seed(SEED)
    batch, seen = engine.reset(SEED), []
    for step in range(steps + 1):
        seen.append([array.copy() for array in (*batch.obs.values(), batch.reward, batch.terminated, batch.truncated)])
        if step < steps and perf_counter() < until:
            batch = engine.step(engine.action_space.sample()[np.newaxis])
        else:
            break
    return seen
