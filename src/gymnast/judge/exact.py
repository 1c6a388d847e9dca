"""What an agent earns on average, not measured but computed: for envs whose transitions are a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gymnast.agent.batch import OBS, Batch
from gymnast.agent.nets import Net
from gymnast.envs.tabular.oracle import Floats, Table


@dataclass(frozen=True)
class ExactScore:
    """The expected return of a policy under the time limit, and that of the best one."""

    value: float
    optimum: float

    @property
    def regret(self) -> float:
        return max(0.0, self.optimum - self.value)  # less than zero is a rounding error


def exact_score(net: Net, table: Table, deterministic: bool = True) -> ExactScore:
    return ExactScore(table.value_of(policy_of(net, table, deterministic)), table.best_value)


def policy_of(net: Net, table: Table, deterministic: bool = True) -> Floats:
    """[states, actions]: the probability of each action, chosen as evaluation chooses."""
    states, actions = table.reward.shape
    agent = net.agent
    if deterministic:
        first = np.ones(states, np.bool_)
        choice = net.act(table.obs, agent.initial_state(states), first, table.mask, None)
        return np.eye(actions)[agent.head.to_env(choice.action)]
    columns = {OBS + key: torch.from_numpy(array) for key, array in table.obs.items()}
    if table.mask is not None:
        columns["mask"] = torch.from_numpy(table.mask)
    here = Batch(columns).map(lambda column: column.to(agent.device))
    each = [torch.full((states,), a, device=agent.device) for a in range(actions)]
    with torch.no_grad():
        logps = [agent.evaluate(here.with_columns(action=action)).logp for action in each]
    policy = torch.stack(logps, 1).double().exp().cpu().numpy()
    return policy / policy.sum(axis=1, keepdims=True)
