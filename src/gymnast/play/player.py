"""An agent at play: the one way to step envs with an agent that does not learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent.batch import OBS, Batch
from gymnast.agent.nets import Net
from gymnast.core.seeds import derive_seed
from gymnast.envs.types import StepBatch, VecEnv


class Moment(NamedTuple):
    """What the envs show, what the agent remembers, and what it is about to do."""

    now: StepBatch
    actions: NDArray[Any]  # as the envs take them
    state: dict[str, Tensor]  # before acting
    starts: NDArray[np.bool_]

    def describe(self, net: Net) -> dict[str, Tensor]:
        """What the agent makes of it: see `Agent.describe`."""
        columns = {OBS + key: torch.from_numpy(array) for key, array in self.now.obs.items()}
        columns["starts"] = torch.from_numpy(self.starts)
        if self.now.mask is not None:
            columns["mask"] = torch.from_numpy(self.now.mask)
        here = Batch(columns, self.state).map(lambda column: column.to(net.agent.device))
        return {name: rows.cpu() for name, rows in net.agent.describe(here).items()}


def command_seed(seed: int) -> int:
    """Root of the episodes that commands play where none is given: `gymnast eval` and `gymnast video` see the same."""
    return derive_seed(seed, "eval command")


def play(net: Net, env: VecEnv, seed: int, deterministic: bool = True) -> Iterator[Moment]:
    """Steps the envs for ever. The agent does not learn and its normaliser does not move."""
    sample = None if deterministic else torch.Generator().manual_seed(derive_seed(seed, "actions"))
    now = env.reset(derive_seed(seed, "envs"))
    starts = np.ones(env.n_envs, np.bool_)
    state = net.agent.initial_state(env.n_envs)
    while True:
        if sample is not None and starts.any():  # each episode has noise of its own
            state = net.agent.head.renew(state, torch.from_numpy(starts))
        choice = net.act(now.obs, state, starts, now.mask, sample)
        actions = net.agent.head.to_env(choice.action)
        yield Moment(now, actions, state, starts)
        now, state = env.step(actions), choice.state
        starts = now.terminated | now.truncated


def episode_seed(root: int, index: int) -> int:
    """What episode `index` of an evaluation is reset with, where every episode has an env of its own."""
    return derive_seed(derive_seed(root, "envs"), index, 0)
