"""What was experienced between two updates: allocated once, time-major [T, N, ...], overwritten every time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from gymnast.agent import Agent


@dataclass(slots=True)
class Batch:
    """A flat slice of a rollout, [B, ...]."""

    obs: dict[str, Tensor]
    action: Tensor
    logp: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor
    mask: Tensor | None


def _torch_dtype(space: gym.Space[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, space.dtype)).dtype


class Rollout:
    """`starts[t]` says that obs[t] begins an episode. Rows are valid once `collect` has filled them.

    Fresh memory is poisoned (NaN, -1), so that a row read before it was written shows at once.
    """

    def __init__(self, n_steps: int, n_envs: int, agent: Agent, masks: bool = False) -> None:
        self.n_steps, self.n_envs = n_steps, n_envs
        self.device = next(agent.parameters()).device

        def buffer(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
            tensor = torch.empty((n_steps, n_envs, *shape), dtype=dtype)
            if dtype.is_floating_point:
                return tensor.fill_(torch.nan)
            return tensor.fill_(-1 if dtype.is_signed else 0)

        def observations(space: gym.Space[Any]) -> Tensor:
            shape, dtype = space.shape or (), _torch_dtype(space)
            if dtype == torch.uint8 and len(shape) == 3:  # pictures [C, H, W] lie channels last, as convolutions read
                return buffer((*shape[1:], shape[0]), dtype).permute(0, 1, 4, 2, 3)
            return buffer(shape, dtype)

        self.obs = {key: observations(space) for key, space in agent.obs_space.items()}
        self.action = buffer(agent.head.shape, agent.head.dtype)
        self.mask = buffer((agent.head.n_mask,), torch.bool) if masks else None
        self.logp, self.value, self.reward, self.final_value, self.advantage, self.returns = (
            buffer((), torch.float32) for _ in range(6)
        )
        self.terminated, self.truncated, self.starts = (buffer((), torch.bool) for _ in range(3))
        self.last_value = torch.full((n_envs,), torch.nan)

    @property
    def size(self) -> int:
        return self.n_steps * self.n_envs

    @property
    def ended(self) -> Tensor:
        return self.terminated | self.truncated

    def flat(self) -> Batch:
        """Every sample once, in time order, on the agent's device."""

        def row(tensor: Tensor) -> Tensor:
            return tensor.flatten(0, 1).to(self.device)

        return Batch(
            {key: row(tensor) for key, tensor in self.obs.items()},
            row(self.action),
            row(self.logp),
            row(self.value),
            row(self.advantage),
            row(self.returns),
            None if self.mask is None else row(self.mask),
        )


def minibatches(batch: Batch, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
    """Every sample exactly once, in a new random order each time it is called."""
    order = torch.randperm(len(batch.logp), generator=generator).to(batch.logp.device)
    for index in order.split(batch_size):
        yield Batch(
            {key: rows_of(tensor, index) for key, tensor in batch.obs.items()},
            batch.action[index],
            batch.logp[index],
            batch.value[index],
            batch.advantage[index],
            batch.returns[index],
            None if batch.mask is None else batch.mask[index],
        )


def rows_of(obs: Tensor, index: Tensor) -> Tensor:
    """obs[index]. Pictures are copied whole, in the order they lie in: pixel by pixel it takes ten times as long."""
    if obs.dtype == torch.uint8 and obs.ndim == 4:
        return obs.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return obs[index]
