"""Where networks run: the device and the threads. Nothing else in the package sets them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gymnast.core.errors import UserError
from gymnast.core.machine import cores

if TYPE_CHECKING:
    import torch


def is_available(name: str) -> bool:
    """Whether a device of that name is on this machine."""
    import torch

    return name == "cpu" or (torch.cuda if name == "cuda" else torch.backends.mps).is_available()


def pick_device(name: str, large_network: bool) -> torch.device:
    """Where the network lives; rollouts, statistics and random numbers are on the CPU whatever this says.

    `auto` takes an accelerator for a large network alone: a small one is trained many times as fast by the compiled
    network on a CPU.
    """
    import torch

    available = {device: is_available(device) for device in ("cpu", "cuda", "mps")}
    if name == "auto":
        fast = next((device for device in ("cuda", "mps") if available[device]), "cpu")
        return torch.device(fast if large_network else "cpu")
    if not available[name]:
        usable = ", ".join(device for device, there in available.items() if there)
        raise UserError(f"train.device: {name!r} is not available on this machine. Use one of: auto, {usable}.")
    return torch.device(name)


_parts = 1
_trunks = 1


def set_threads(threads: int | None, large_network: bool = False, trunks: int = 1) -> None:
    """Where none are asked for: one thread, all cores for a large network, or one for each of `trunks`: small networks
    that are side by side, like an actor and a critic.

    A small network gets them inside its operators, torch's and NumPy's alike, where a second one gains nothing and
    during other work costs a multiple: it spins, waiting. A large one gets a thread for each part of its batches.
    """
    import threadpoolctl
    import torch

    global _parts, _trunks
    count = threads or (cores() if large_network else min(trunks, cores()))
    _parts, _trunks = (count, 1) if large_network else (1, min(trunks, count))
    inside = count // (_parts * _trunks)
    torch.set_num_threads(inside)
    threadpoolctl.threadpool_limits(inside, "blas")
    if large_network:
        _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Tells glibc to keep what is freed for what is wanted next, up to a gigabyte.

    A large network wants the same hundred megabytes for every batch. By default they go back to the system each time
    and come again page by page, which took a tenth of an update.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # other C libraries have none
        mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD, at the most it may be: smaller blocks come from the kept memory
        mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


@contextmanager
def undivided_batches() -> Iterator[None]:
    """Every batch goes through a large network whole."""
    global _parts
    before, _parts = _parts, 1
    try:
        yield
    finally:
        _parts = before


def trunks_at_once() -> int:
    """How many small networks may be in threads of their own."""
    return _trunks


def threads_in_use() -> int:
    import torch

    return torch.get_num_threads() * _parts * _trunks


def parts_of_a_batch() -> int:
    """How many threads a large network's batch is divided among."""
    return _parts
