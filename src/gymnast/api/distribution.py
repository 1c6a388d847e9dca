"""The actions that a policy chooses from, by the names that stable-baselines3's distributions have."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, Batch, Outputs
from gymnast.core.errors import UserError


def evaluated(agent: Agent, obs: dict[str, Tensor], actions: Tensor) -> Outputs:
    """Log-probability, entropy and values of actions, with gradients."""
    if agent.has_memory:
        raise UserError(
            "evaluate_actions: an agent with memory judges whole sequences, and observations alone do not show what it "
            "remembers."
        )
    count = len(next(iter(obs.values())))
    columns = {OBS + name: leaf for name, leaf in obs.items()}
    return agent.evaluate(Batch(columns | {"action": actions.reshape(count, *agent.head.shape).to(agent.head.dtype)}))


class Distribution:
    """Of the actions for a batch of observations. Actions are as the agent counts them: from 0, and before continuous
    ones are clipped, squashed or scaled."""

    def __init__(self, agent: Agent, obs: dict[str, Tensor], generator: torch.Generator) -> None:
        self._agent, self._obs, self._generator = agent, obs, generator

    def log_prob(self, actions: Tensor) -> Tensor:
        return torch.as_tensor(evaluated(self._agent, self._obs, actions).logp)

    def entropy(self) -> Tensor:
        return torch.as_tensor(evaluated(self._agent, self._obs, self.mode()).entropy)

    def mode(self) -> Tensor:
        return self._agent.act(self._obs).action

    def sample(self) -> Tensor:
        return self._agent.act(self._obs, sample=self._generator).action

    def get_actions(self, deterministic: bool = False) -> Tensor:
        return self.mode() if deterministic else self.sample()

    @property
    def distribution(self) -> Any:
        """torch's own, without gradients; a list of them for MultiDiscrete."""
        columns = {OBS + name: leaf for name, leaf in self._obs.items()}
        said, space = self._agent.describe(Batch(columns)), self._agent.action_space
        if isinstance(space, gym.spaces.Box):
            return torch.distributions.Normal(said["mean"], said["std"])
        if isinstance(space, gym.spaces.MultiBinary):
            return torch.distributions.Bernoulli(probs=said["probability"])
        if isinstance(space, gym.spaces.MultiDiscrete):
            parts = said["probability"].split(space.nvec.ravel().tolist(), 1)
            return [torch.distributions.Categorical(probs=part) for part in parts]
        return torch.distributions.Categorical(probs=said["probability"])
