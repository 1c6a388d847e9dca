"""Seeds: every random number of a run comes from one seed, through a tree of names; and how several are written."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

MOST_SEEDS = 10_000
SEEDS = re.compile(r"\d{1,15}(-\d{1,15})?(,\d{1,15}(-\d{1,15})?)*")


def derive_seed(seed: int, *path: int | str) -> int:
    """A 32-bit seed for one leaf of the run's seed tree, e.g. derive_seed(seed, "eval", 3)."""
    words = [part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0])


def parse_seeds(text: str) -> list[int]:
    """ "5": the seeds 1 to 5; "1-10" and "1,4-6": just these."""
    text = text.replace(" ", "")
    if not SEEDS.fullmatch(text):
        raise ValueError("must be a number of seeds like 5, or seeds like 1-10 or 1,4-6.")
    if text.isdigit():
        text = f"1-{text}"
    seeds: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) - int(first) >= MOST_SEEDS:
            raise ValueError(f"names more than {MOST_SEEDS} seeds.")
        seeds |= set(range(int(first), int(last or first) + 1))
    if not seeds:
        raise ValueError("names no seed. Write a number of seeds like 5, or seeds like 1-10 or 1,4-6.")
    return sorted(seeds)


def write_seeds(seeds: Sequence[int]) -> str:
    """The shortest text that `parse_seeds` turns into these."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and seed == parts[-1][1] + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    if len(parts) == 1 and parts[0][0] == 1:
        return str(parts[0][1])
    text = ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)
    return f"{text}-{text}" if text.isdigit() else text
