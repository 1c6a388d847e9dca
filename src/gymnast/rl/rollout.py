"""What was experienced between two updates: named streams, time-major [T, N, ...], allocated once, overwritten."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.agent.batch import OBS, Batch
from gymnast.core.errors import UserError
from gymnast.core.lazy import torch
from gymnast.core.machine import free_memory
from gymnast.rl.returns import returns_of

if TYPE_CHECKING:
    import gymnasium as gym
    from torch import Tensor

    from gymnast.agent.agent import Agent


@dataclass(frozen=True)
class Stream:
    """One number, or an array of that shape, for every step of every env."""

    dtype: Any
    shape: tuple[int, ...] = ()


class Rollout:
    """`starts[t]` says that obs[t] begins an episode. Rows are valid once a collector has filled them.

    Fresh memory is poisoned (NaN, -1), so that a row read before it was written shows at once.
    `extra`: streams that an algorithm or an extension stores in addition to the usual ones.
    """

    def __init__(
        self,
        n_steps: int,
        n_envs: int,
        agent: Agent,
        masks: bool = False,
        sequence_length: int | None = None,
        extra: Mapping[str, Stream] | None = None,
    ) -> None:
        self.n_steps, self.n_envs = n_steps, n_envs
        self.sequence_length = sequence_length if agent.has_memory else None
        number, flag = Stream(torch.float32), Stream(torch.bool)
        streams = {OBS + key: _stream(space) for key, space in agent.seen_space.items()}
        streams["action"] = Stream(agent.head.dtype, agent.head.shape)
        if masks:
            streams["mask"] = Stream(torch.bool, (agent.head.n_mask,))
        for value in agent.value_names:
            streams |= dict.fromkeys((value, f"final_{value}", returns_of(value)), number)
        streams |= dict.fromkeys(("logp", "reward", "advantage"), number)
        streams |= dict.fromkeys(("terminated", "truncated", "starts"), flag)
        streams |= extra or {}
        needed = n_steps * n_envs * sum(s.dtype.itemsize * math.prod(s.shape) for s in streams.values())
        if needed > (free := free_memory()):
            raise UserError(
                f"algo.n_steps: a rollout of {n_steps} steps in {n_envs} envs takes {needed / 2**30:,.1f} GB, and "
                f"{free / 2**30:,.1f} GB are free. Use fewer, or a smaller env.n_envs."
            )
        self.streams = {name: _memory(stream, n_steps, n_envs) for name, stream in streams.items()}
        self.last_values = {value: torch.full((n_envs,), torch.nan) for value in agent.value_names}
        self.states: dict[str, Tensor] = {}
        if self.sequence_length is not None:
            rows = n_steps // self.sequence_length
            state = agent.remembered(n_envs)
            self.states = {name: torch.full((rows, *start.shape), torch.nan) for name, start in state.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self.streams[name]

    @property
    def obs(self) -> dict[str, Tensor]:
        return {name[len(OBS) :]: stream for name, stream in self.streams.items() if name.startswith(OBS)}

    @property
    def size(self) -> int:
        return self.n_steps * self.n_envs

    @property
    def ended(self) -> Tensor:
        return self["terminated"] | self["truncated"]

    @property
    def memory(self) -> dict[str, Tensor]:
        """All of it, by name: what a checkpoint between learning and judging keeps."""
        parts = {"streams": self.streams, "last_values": self.last_values, "states": self.states}
        return {f"{part}/{name}": tensor for part, some in parts.items() for name, tensor in some.items()}

    def batch(self, names: Sequence[str]) -> Batch:
        """Every sample once: observations, masks and the named streams, in time order; or in whole sequences with the
        state before each, where the agent has a memory."""
        wanted = {*names, "mask", *(["starts"] if self.sequence_length else [])}
        chosen = {name: s for name, s in self.streams.items() if name.startswith(OBS) or name in wanted}
        length = self.sequence_length
        if length is None:
            return Batch({name: stream.flatten(0, 1) for name, stream in chosen.items()})
        columns = {
            name: stream.unflatten(0, (-1, length)).transpose(1, 2).flatten(0, 2) for name, stream in chosen.items()
        }
        return Batch(columns, {name: states.flatten(0, 1) for name, states in self.states.items()})

    def by_step(self, column: Tensor) -> Tensor:
        """A column of `batch` as [T, N]."""
        length = self.sequence_length
        if length is None:
            return column.view(self.n_steps, self.n_envs)
        return column.view(-1, self.n_envs, length).transpose(1, 2).reshape(self.n_steps, self.n_envs)


def _stream(space: gym.Space[Any]) -> Stream:
    return Stream(torch.from_numpy(np.empty(0, space.dtype)).dtype, space.shape or ())


def _memory(stream: Stream, n_steps: int, n_envs: int) -> Tensor:
    dtype, shape = stream.dtype, stream.shape
    poison = torch.nan if dtype.is_floating_point else -1 if dtype.is_signed else 0
    if dtype == torch.uint8 and len(shape) == 3:  # pictures [C, H, W] lie channels last, as convolutions read
        return torch.full((n_steps, n_envs, *shape[1:], shape[0]), 0, dtype=dtype).permute(0, 1, 4, 2, 3)
    return torch.full((n_steps, n_envs, *shape), poison, dtype=dtype)
