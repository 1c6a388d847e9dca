"""One agent for tasks with different spaces: first and last layers of their own on a shared trunk."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch
from torch import Generator, Tensor, nn

from gymnast.agent.bodies.mlp import dense_layers
from gymnast.agent.heads import LOG_2PI, MASKED, CategoricalHead, GaussianHead, Head, State
from gymnast.core.errors import UserError
from gymnast.core.registry import ENCODERS
from gymnast.core.tasks import TASK, TaskSpaces

if TYPE_CHECKING:
    from gymnast.config import AgentConfig


class TaskEncoder(nn.Module):
    """The config's encoder with its first hidden layer, once for each task; the other hidden layers are shared.

    A row goes through its own task's encoder alone, so that no other task's layers get a gradient from it.
    """

    def __init__(self, tasks: TaskSpaces, cfg: AgentConfig) -> None:
        super().__init__()
        if len(cfg.hidden) < 2:
            raise UserError(
                f"agent.hidden: {cfg.hidden} leaves nothing to share: with tasks of different spaces the first hidden "
                "layer is each task's own. Use at least two, like [64, 64]."
            )
        first, rest = (cfg.model_copy(update={"hidden": part}) for part in (cfg.hidden[:1], cfg.hidden[1:]))
        encoders = [ENCODERS.get(cfg.encoder)(obs, first) for obs in tasks.obs]
        self.keys = [list(obs) for obs in tasks.obs]
        self.encoders = nn.ModuleList(encoders)
        self.trunk, self.out_features = dense_layers(encoders[0].out_features, rest)

    @classmethod
    def of(cls, tasks: TaskSpaces) -> Callable[[Any, AgentConfig], TaskEncoder]:
        """Called as every encoder is, with the joint observation space."""
        return lambda _, cfg: cls(tasks, cfg)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        rows = [torch.nonzero(obs[TASK] == number).flatten() for number in range(len(self.encoders))]
        features = [
            encoder({key: obs[key][own] for key in keys})
            for encoder, keys, own in zip(self.encoders, self.keys, rows, strict=True)
            if len(own)
        ]
        return self.trunk(torch.cat(features)[torch.cat(rows).argsort()])


class TaskCategoricalHead(CategoricalHead):
    """Discrete, a choice of its own size for each task: what a task does not have has the probability 0, exactly."""

    allowed: Tensor

    def __init__(self, tasks: TaskSpaces) -> None:
        sizes = [int(action.n) for action in tasks.actions if isinstance(action, gym.spaces.Discrete)]
        super().__init__(gym.spaces.Discrete(max(sizes)))
        self.n_outputs = len(sizes) * max(sizes)
        self.uniform_entropy = math.log(sizes[0]) if len(set(sizes)) == 1 else None
        self.register_buffer("allowed", torch.arange(max(sizes)) < torch.tensor(sizes)[:, None], persistent=False)

    def choices_of(self, task: int | None = None) -> int:
        return super().choices_of() if task is None else int(self.allowed[task].sum())

    def of_task(self, actor_out: Tensor, task: Tensor) -> Tensor:
        return _own(actor_out, task, len(self.allowed)).masked_fill(~self.allowed[task], MASKED)


class TaskGaussianHead(GaussianHead):
    """Box, with as many numbers as each task has: the rest is 0 and counts neither in probabilities nor in the entropy.

    Outputs are means, then which task it is.
    """

    real: Tensor

    def __init__(self, space: gym.spaces.Box, tasks: TaskSpaces, cfg: AgentConfig) -> None:
        super().__init__(space, cfg)
        if cfg.std != "state_independent":
            raise UserError(
                f"agent.std: {cfg.std} does not work for tasks with different spaces. Use state_independent."
            )
        sizes = [math.prod(action.shape or ()) for action in tasks.actions]
        self.n_outputs = len(sizes) * max(sizes)
        self.log_std = nn.Parameter(torch.full((len(sizes), max(sizes)), cfg.log_std_init))
        self.register_buffer("real", torch.arange(max(sizes)) < torch.tensor(sizes)[:, None], persistent=False)

    def choices_of(self, task: int | None = None) -> int:
        return super().choices_of() if task is None else int(self.real[task].sum())

    def of_task(self, actor_out: Tensor, task: Tensor) -> Tensor:
        return torch.cat([_own(actor_out, task, len(self.real)), task[:, None].to(actor_out.dtype)], 1)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, log of the standard deviation, and which numbers the task has."""
        task = outputs[:, -1].long()
        return outputs[:, :-1], self.log_std[task], self.real[task]

    def act(self, outputs: Tensor, sample: Generator | None, state: State) -> tuple[Tensor, Tensor, State]:
        mean, log_std, real = self._parts(outputs)
        action = mean
        if sample is not None:
            action = mean + log_std.exp() * torch.randn(mean.shape, generator=sample).to(mean.device)
        action = action * real
        return action, self.evaluate(outputs, action)[0], state

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std, real = self._parts(outputs)
        noise = (action - mean) / log_std.exp()
        logp = -0.5 * noise.square() - log_std - 0.5 * LOG_2PI
        entropy = log_std + 0.5 + 0.5 * LOG_2PI
        if self.squash:  # as in GaussianHead
            logp = logp - self._log_slope(action)
            entropy = entropy + self._log_slope(mean + log_std.exp() * noise.detach())
        return logp.masked_fill(~real, 0.0).sum(1), entropy.masked_fill(~real, 0.0).sum(1)

    def describe(self, outputs: Tensor) -> dict[str, Tensor]:
        mean, log_std, real = self._parts(outputs)
        return {"mean": mean * real, "std": log_std.exp() * real}


def make_task_head(space: gym.Space[Any], tasks: TaskSpaces, cfg: AgentConfig) -> Head:
    """`space`: the joint one."""
    return TaskGaussianHead(space, tasks, cfg) if isinstance(space, gym.spaces.Box) else TaskCategoricalHead(tasks)


def _own(actor_out: Tensor, task: Tensor, count: int) -> Tensor:
    """Each row's own part of a layer that answers for every task."""
    every = actor_out.unflatten(1, (count, -1))
    return every[torch.arange(len(task), device=task.device), task]
