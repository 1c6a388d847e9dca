"""What tests of learners share: a config around an algorithm's settings, experience of random numbers, gradients."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, VALUE, Batch
from gymnast.agent.nets import Net
from gymnast.agent.nets.dense_net import DenseNet
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.config import EnvConfig, RunConfig
from gymnast.config.algos import AlgoSettings
from gymnast.core.registry import ALGOS
from gymnast.rl.learner import Learner
from gymnast.rl.rollout import Rollout

NETS: dict[str, type[TorchNet] | type[DenseNet]] = {"torch": TorchNet, "dense": DenseNet}


def make_learner(net: Net, algo: AlgoSettings, generator: torch.Generator | None = None, n_envs: int = 4) -> Learner:
    """The algorithm of these settings on a network, with everything else as it comes."""
    config = RunConfig(env=EnvConfig(id="CartPole-v1", n_envs=n_envs), algo=algo)
    learner: Learner = ALGOS.get(algo.name)(net, config, generator or torch.Generator().manual_seed(0))
    return learner


def as_batch(obs: Tensor, **columns: Tensor) -> Batch:
    """Samples of the one observation of an agent, `obs`."""
    return Batch({OBS + "obs": obs, **columns})


def observations(space: gym.Space[Any], shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    if isinstance(space, gym.spaces.Discrete):
        return torch.randint(int(space.n), shape, generator=rng)
    return torch.randn(*shape, *(space.shape or ()), generator=rng)


def experience(
    agent: Agent, steps: int, envs: int, drift: float = 0.0, value_drift: float = 0.0, masks: bool = False
) -> Rollout:
    """A rollout of random numbers, by a policy and a critic that were somewhat different: ratios are not all one."""
    rng = torch.Generator().manual_seed(0)
    rollout = Rollout(steps, envs, agent, masks)
    size = (steps, envs)
    rollout.obs["obs"].copy_(observations(agent.obs_space["obs"], size, rng))
    mask = None
    if "mask" in rollout.streams:
        rollout["mask"].copy_(torch.rand(rollout["mask"].shape, generator=rng) > 0.4)
        rollout["mask"][..., 1] = True  # something is always allowed
        mask = rollout["mask"].flatten(0, 1)
    acted = agent.act({"obs": rollout.obs["obs"].flatten(0, 1)}, mask=mask, sample=rng)
    rollout["action"].copy_(acted.action.reshape(rollout["action"].shape))
    rollout["logp"].copy_(acted.logp.reshape(size) + drift * torch.randn(size, generator=rng))
    rollout["value"].copy_(acted.values[VALUE].reshape(size) + value_drift * torch.randn(size, generator=rng))
    rollout["advantage"].copy_(torch.randn(size, generator=rng) * 2 + 0.5)
    rollout["returns"].copy_(rollout["advantage"] + rollout["value"])
    rollout["reward"].copy_(torch.randn(size, generator=rng))
    rollout["terminated"].copy_(torch.rand(size, generator=rng) < 0.2)
    rollout["truncated"].fill_(False)
    return rollout


def gradients(net: Net) -> dict[str, Tensor]:
    """As they were applied last, by parameter; without those that nothing has reached."""
    if isinstance(net, DenseNet):
        return {name: view.clone() for name, view in net.views(net.gradient).items()}
    return {name: p.grad.clone() for name, p in net.agent.named_parameters() if p.grad is not None}
