"""Seeds: every random number of a run comes from one seed, through a tree of names."""

from __future__ import annotations

import zlib

import numpy as np


def derive_seed(seed: int, *path: int | str) -> int:
    """A 32-bit seed for one leaf of the run's seed tree, e.g. derive_seed(seed, "eval", 3)."""
    words = [part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0])
