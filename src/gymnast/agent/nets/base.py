"""What an algorithm needs of a network, and no more: outputs of a batch, the way back, a step; and acting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Generator, Tensor

from gymnast.agent.agent import Agent
from gymnast.agent.batch import Batch, Outputs
from gymnast.agent.heads import State

Arrays = Mapping[str, NDArray[Any]]
Flags = NDArray[np.bool_]
Metrics = dict[str, Tensor | float]  # tensors where asking for the number would wait for a device


class Choice(NamedTuple):
    """What a network chose for N envs, as arrays on the CPU. Log-probabilities and values are None where they are
    cheaper to compute for a whole rollout at once, by `score`."""

    action: NDArray[Any]
    logp: Tensor | None
    values: dict[str, Tensor] | None
    state: State


class Net(Protocol):
    """An agent's arithmetic. The agent owns the weights; a network computes with them and moves them."""

    agent: Agent
    compiled: bool  # whether a kernel may write slopes for it, or a loss must be an expression of tensors
    trunks: int  # networks side by side in it that are worth a thread each

    def act(self, obs: Arrays, state: State, starts: Flags, mask: Flags | None, sample: Generator | None) -> Choice:
        """What N envs do next: sampled, or the likeliest without a generator."""

    def values(self, obs: Arrays, state: State, starts: Flags) -> dict[str, Tensor]:
        """Of any number of observations, on the CPU."""

    def score(self, batch: Batch) -> Outputs:
        """Log-probabilities and values of a prepared batch, without gradients, on the CPU."""

    def prepare(self, batch: Batch) -> Batch:
        """A rollout's columns in the form and place that this network computes with."""

    def shuffled(self, data: Batch, order: Tensor, size: int) -> Iterator[Batch]:
        """Prepared samples in that order, `size` at a time."""

    def forward(self, batch: Batch) -> Outputs: ...

    def backward(self, slopes: Outputs) -> None:
        """Gradients of every weight, from those of the outputs of the last `forward`."""

    def step(self, rate: float, max_norm: float, critic_rate: float | None = None) -> Any:
        """Clips the gradient and moves the weights, the critic's by a rate of their own where one is given; what it
        returns is for `norm_metrics`."""

    def norm_metrics(self, steps: Sequence[Any], max_norm: float) -> Metrics:
        """Norms before clipping, by part and in all, as means over these steps."""

    def holds(self) -> bool:
        """Whether the agent is still what it was when this network was made for it."""

    def use_optimizer(self, name: str, **numbers: Any) -> None:
        """`numbers`: what an `Optimizer` is made with."""

    def save_state(self) -> dict[str, Tensor]:
        """The optimizer's moments, by parameter."""

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Moments that were saved; none, and the optimizer starts again."""
