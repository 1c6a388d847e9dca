"""A batch through a large network in several threads, a part of the batch in each, forwards and backwards.

Threads inside every operator meet at its end: dozens of times a pass, and each time all wait for the slowest. Threads
that take their own part of the batch through the whole network meet once. Same numbers, but for the order of additions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gymnast.core import devices, torch_private

MIN_ROWS = 32  # of a part: with fewer, starting a thread costs more than it saves
T = TypeVar("T")
Network = Callable[[Tensor], Tensor]
_pool: list[ThreadPoolExecutor] = []  # one, once it is needed
if hasattr(os, "register_at_fork"):  # threads stay behind, and what waits for them would wait for ever
    os.register_at_fork(after_in_child=_pool.clear)


def in_parts(network: Network, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """network(x), by as many threads as `devices.set_threads` gave and the batch is worth."""
    parts = min(devices.parts_of_a_batch(), len(x) // MIN_ROWS)
    if parts < 2 or x.device.type != "cpu":
        return network(x)
    if torch.is_grad_enabled():
        return _InParts.apply(network, x.chunk(parts), *parameters)
    return torch.cat(together([partial(_forward, network, False, part) for part in x.chunk(parts)]))


def _forward(network: Network, grad: bool, x: Tensor) -> Tensor:
    with torch.set_grad_enabled(grad):  # each thread has a switch of its own
        return network(x)


def together(jobs: Iterable[Callable[[], T]]) -> list[T]:
    """All jobs at once, the first in this thread; their results in order."""
    first, *others = jobs
    if not _pool:
        _pool.append(ThreadPoolExecutor(thread_name_prefix="batch part"))
    later = [_pool[0].submit(job) for job in others]
    return [first(), *(future.result() for future in later)]


class _InParts(torch.autograd.Function):
    """To autograd one operator of the network's parameters; inside, a graph for every part."""

    @staticmethod
    def forward(ctx: Any, network: Network, parts: tuple[Tensor, ...], *parameters: Tensor) -> Tensor:
        ctx.parameters = parameters
        ctx.outs = together([partial(_forward, network, True, part) for part in parts])
        return torch.cat([out.detach() for out in ctx.outs])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        rows = grad.split([len(out) for out in ctx.outs])
        jobs = [
            partial(torch.autograd.grad, out, ctx.parameters, part) for out, part in zip(ctx.outs, rows, strict=True)
        ]
        total, *others = together(jobs)
        for gradients in others:  # always in this order: the same bits every time
            torch_private.add_(total, gradients)
        del ctx.outs
        return None, None, *total
