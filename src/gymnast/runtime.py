"""The machine: seeds, threads, device. Nothing else in the package sets any of them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from gymnast.errors import UserError

if TYPE_CHECKING:
    import torch


def derive_seed(seed: int, *path: int | str) -> int:
    """A 32-bit seed for one leaf of the run's seed tree, e.g. derive_seed(seed, "eval", 3)."""
    words = [part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0])


def pick_device(name: str) -> torch.device:
    """The torch device a config names; `auto` is cuda where there is one, else the cpu."""
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if available["cuda"] else "cpu")
    if not available[name]:
        usable = ", ".join(device for device, there in available.items() if there)
        raise UserError(f"train.device: {name!r} is not available on this machine. Use one of: auto, {usable}.")
    return torch.device(name)


def set_threads(threads: int | None) -> None:
    """One thread unless asked otherwise, for torch and for NumPy's matrices alike.

    On small networks a second one gains nothing, and beside other work it costs a multiple: it spins, waiting.
    """
    import threadpoolctl
    import torch

    torch.set_num_threads(threads or 1)
    threadpoolctl.threadpool_limits(threads or 1, "blas")
