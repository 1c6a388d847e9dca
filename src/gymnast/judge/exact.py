"""What an agent earns on average, not measured but computed: for envs whose transitions are a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gymnast.agent import Agent
from gymnast.envs.tabular.oracle import Floats, Table
from gymnast.envs.types import StepBatch
from gymnast.rl.collector import choose_actions, to_tensors


@dataclass(frozen=True)
class ExactScore:
    """The expected return of a policy under the time limit, and that of the best one."""

    value: float
    optimum: float

    @property
    def regret(self) -> float:
        return max(0.0, self.optimum - self.value)  # less than zero is a rounding error


def exact_score(agent: Agent, table: Table, deterministic: bool = True) -> ExactScore:
    return ExactScore(table.value_of(policy_of(agent, table, deterministic)), table.best_value)


def policy_of(agent: Agent, table: Table, deterministic: bool = True) -> Floats:
    """[states, actions]: the probability of each action, chosen as evaluation chooses."""
    states, actions = table.reward.shape
    if deterministic:
        never = np.zeros(states, np.bool_)
        now = StepBatch(table.obs, np.zeros(states, np.float32), never, never, table.obs, [], table.mask)
        return np.eye(actions)[choose_actions(agent, now, None, 0)]
    device = next(agent.parameters()).device
    obs = to_tensors(table.obs, device)
    mask = None if table.mask is None else torch.from_numpy(table.mask).to(device)
    with torch.no_grad():
        each = [agent.evaluate(obs, torch.full((states,), a, device=device), mask).logp for a in range(actions)]
    policy = torch.stack(each, 1).double().exp().cpu().numpy()
    return policy / policy.sum(axis=1, keepdims=True)
