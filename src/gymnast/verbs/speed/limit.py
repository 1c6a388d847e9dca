"""What this machine could do at best: the network's arithmetic over the measured rate of matrix products."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, VALUE, Batch
from gymnast.training.state import TrainState

TIMING_SECONDS = 0.2  # for each thing that is timed
MOST_ROWS = 16_384  # of a matrix that is only there to be timed
BACKWARD = 2  # a backward pass is two products where the forward pass is one


@dataclass(frozen=True)
class Product:
    """A matrix product [rows, inner] x [inner, outer] for one observation; a convolution is one as well."""

    rows: float
    inner: int
    outer: int

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.inner * self.outer


def products_of(agent: Agent, obs: dict[str, Any]) -> list[Product]:
    """The matrix products of one forward pass of actor and critic, whatever modules ask torch for them."""
    tensors = {key: torch.from_numpy(array).to(agent.device) for key, array in obs.items()}
    batch = len(next(iter(tensors.values())))
    found: list[Product] = []

    def matrices(left: torch.Size, right: torch.Size, **_: Any) -> int:
        found.append(Product(left[0] / batch, left[1], right[1]))
        return 0

    def with_bias(bias: torch.Size, left: torch.Size, right: torch.Size, **_: Any) -> int:
        return matrices(left, right)

    def convolution(obs: torch.Size, weight: torch.Size, *_: Any, out_shape: torch.Size, **__: Any) -> int:
        out, *kernel = weight
        found.append(Product(math.prod(out_shape[2:]) * out_shape[0] / batch, math.prod(kernel), out))
        return 0

    aten = torch.ops.aten
    counts = {aten.mm: matrices, aten.addmm: with_bias, aten.convolution: convolution}
    with FlopCounterMode(display=False, custom_mapping=counts):
        agent.act(tensors)
    return found


def best_seconds(act: Callable[[], Any], seconds: float = TIMING_SECONDS) -> float:
    """The shortest time it takes, after a first go that does not count."""
    act()
    best, until = math.inf, time.perf_counter() + seconds
    while True:
        before = time.perf_counter()
        act()
        now = time.perf_counter()
        best = min(best, now - before)
        if now > until:
            return best


def matmul_rate(rows: int, inner: int, outer: int) -> float:
    """Floating-point operations a second of a float32 product of this shape, by NumPy or torch: the faster one."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((rows, inner), dtype=np.float32)
    right = rng.standard_normal((inner, outer), dtype=np.float32)
    out = np.empty((rows, outer), np.float32)
    a, b, c = torch.from_numpy(left), torch.from_numpy(right), torch.from_numpy(out)
    seconds = min(best_seconds(lambda: np.matmul(left, right, out=out)), best_seconds(lambda: torch.mm(a, b, out=c)))
    return 2.0 * rows * inner * outer / seconds


def arithmetic(session: TrainState) -> dict[str, Any]:
    """FLOPs of an env step (acting, then both passes in every epoch), and the rate its largest product runs at."""
    found = products_of(session.agent, session.collector.now.obs)
    epochs, batch = session.config.algo.passes(session.config.rollout_steps)
    forward = sum(product.flops for product in found)
    flops = forward * (1 + (1 + BACKWARD) * epochs)
    largest = max(found, key=lambda product: product.flops)
    rows = min(MOST_ROWS, max(1, round(largest.rows * batch)))
    rate = matmul_rate(rows, largest.inner, largest.outer)
    return {
        "flops_per_step": flops,
        "matmul_gflops": rate / 1e9,
        "matmul_shape": [rows, largest.inner, largest.outer],
        "arithmetic": rate / flops,
    }


def network_rate(session: TrainState) -> float:
    """Steps a second if torch did nothing but this network's passes, at the sizes that training has."""
    agent, n_envs = session.agent, session.env.n_envs
    epochs, batch = session.config.algo.passes(session.config.rollout_steps)
    now = {key: torch.from_numpy(array).to(agent.device) for key, array in session.collector.now.obs.items()}
    many = {key: leaf[torch.arange(batch) % n_envs] for key, leaf in now.items()}
    columns = {OBS + key: leaf for key, leaf in many.items()} | {"action": agent.act(many).action}
    columns["starts"] = torch.ones(batch, dtype=torch.bool, device=agent.device)
    samples = Batch(columns, agent.initial_state(batch) if agent.has_memory else {})
    parameters = [parameter for parameter in agent.parameters() if parameter.requires_grad]

    def learn() -> None:
        judged = agent.evaluate(samples)
        loss = judged.logp.mean() + judged.entropy.mean() + judged.values[VALUE].mean()
        torch.autograd.grad(loss, parameters, allow_unused=True)

    a_step = best_seconds(lambda: agent.act(now)) / n_envs + epochs * best_seconds(learn, 1.0) / batch
    return 1.0 / a_step
