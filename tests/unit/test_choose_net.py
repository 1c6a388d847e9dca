"""Which network computes for an agent: the compiled one only where it knows every part, torch for all others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gymnast
from gymnast.agent.agent import Agent
from gymnast.agent.bodies.mlp import MLPEncoder
from gymnast.agent.nets import choose_net
from gymnast.agent.nets.dense_net import DenseNet, is_known
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.config import AgentConfig, EnvConfig
from gymnast.config.algos import AlgoSettings
from gymnast.core.registry import ENCODERS
from gymnast.envs.make import make_vec
from gymnast.rl.algos.a2c import A2CConfig
from gymnast.rl.algos.ppo import PPOConfig
from gymnast.rl.algos.reinforce import ReinforceConfig
from tests.learners_for_tests import experience, make_learner

VECTOR, CATEGORY = gym.spaces.Box(-np.inf, np.inf, (5,)), gym.spaces.Discrete(7)
CHOICE, CONTINUOUS = gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,))


def make_agent(
    observation: gym.Space[Any] = VECTOR,
    action: gym.Space[Any] = CHOICE,
    values: tuple[str, ...] = ("value",),
    **cfg: Any,
) -> Agent:
    torch.manual_seed(0)
    return Agent({"obs": observation}, action, AgentConfig(**cfg), 0.99, values)


class OwnAgent(Agent):
    """May compute anything."""


class OwnEncoder(MLPEncoder):
    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return super().forward(obs) * 2


class OwnTanh(nn.Tanh):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x


def with_part(change: Callable[[Agent], Any]) -> Callable[[], Agent]:
    def make() -> Agent:
        agent = make_agent()
        assert is_known(agent)
        change(agent)
        return agent

    return make


def freeze(agent: Agent) -> None:
    agent.actor_body.layers[0].requires_grad_(False)


def share(agent: Agent) -> None:
    agent.critic_body = agent.actor_body


def replace_activation(agent: Agent) -> None:
    agent.actor_body.layers[1] = nn.ReLU()


def replace_head(agent: Agent) -> None:
    agent.actor_out = nn.Linear(64, 3, bias=False)


def add_layer(agent: Agent) -> None:
    agent.critic_body.layers.append(nn.Linear(64, 64))


UNKNOWN: dict[str, Callable[[], Agent]] = {
    "lstm": lambda: make_agent(memory="lstm"),
    "gru": lambda: make_agent(memory="gru"),
    "second value": lambda: Agent({"obs": VECTOR}, CHOICE, AgentConfig(), 0.99, ("value", "intrinsic")),
    "a critic of another size": lambda: make_agent(critic_hidden=[32, 32]),
    "a critic with more layers": lambda: make_agent(critic_hidden=[64, 64, 64]),
    "a critic without layers": lambda: make_agent(critic_hidden=[]),
    "layer norm": lambda: make_agent(layer_norm=True),
    "elu": lambda: make_agent(activation="elu"),
    "gelu": lambda: make_agent(activation="gelu"),
    "squash": lambda: make_agent(action=CONTINUOUS, squash=True),
    "state-dependent std": lambda: make_agent(action=CONTINUOUS, std="state_dependent"),
    "sde": lambda: make_agent(action=CONTINUOUS, std="sde"),
    "MultiDiscrete": lambda: make_agent(action=gym.spaces.MultiDiscrete([2, 3])),
    "MultiBinary": lambda: make_agent(action=gym.spaces.MultiBinary(3)),
    "embedding": lambda: make_agent(CATEGORY, discrete_encoding="embedding"),
    "category without layers": lambda: make_agent(CATEGORY, hidden=[]),
    "bytes": lambda: make_agent(gym.spaces.Box(0, 255, (4,), np.uint8)),
    "float64 observations": lambda: make_agent(gym.spaces.Box(-1, 1, (4,), np.float64)),
    "several categories": lambda: make_agent(gym.spaces.MultiDiscrete([2, 3])),
    "dict observations": lambda: Agent({"a": VECTOR, "b": VECTOR}, CHOICE, AgentConfig(), 0.99),
    "Agent subclass": lambda: OwnAgent({"obs": VECTOR}, CHOICE, AgentConfig(), 0.99),
    "float64 weights": with_part(lambda agent: agent.double()),
    "another device": with_part(lambda agent: agent.to("meta")),
    "frozen layer": with_part(freeze),
    "frozen bias": with_part(lambda agent: agent.critic_out.bias.requires_grad_(False)),
    "forward hook": with_part(lambda agent: agent.actor_body.register_forward_hook(lambda *_: None)),
    "forward pre-hook": with_part(lambda agent: agent.actor_out.register_forward_pre_hook(lambda *_: None)),
    "backward hook": with_part(lambda agent: agent.actor_out.register_full_backward_hook(lambda *_: None)),
    "hook on a parameter": with_part(lambda agent: agent.actor_out.weight.register_hook(torch.zeros_like)),
    "activation subclass": with_part(lambda agent: agent.actor_body.layers.__setitem__(1, OwnTanh())),
    "another activation in one place": with_part(replace_activation),
    "another layer": with_part(add_layer),
    "a layer without bias": with_part(replace_head),
    "one trunk under two names": with_part(share),
}


@pytest.mark.parametrize("part", UNKNOWN)
def test_what_the_compiled_network_does_not_know_goes_to_torch(part: str) -> None:
    agent = UNKNOWN[part]()
    assert not is_known(agent)
    assert isinstance(choose_net(agent), TorchNet)


def test_a_registered_encoder_goes_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS._entries, "own", OwnEncoder)
    assert isinstance(choose_net(make_agent(encoder="own")), TorchNet)


def test_plain_agents_go_to_the_compiled_network() -> None:
    """Among them stacked vectors, which a wrapper joins to one."""
    assert isinstance(choose_net(make_agent()), DenseNet)
    assert isinstance(choose_net(make_agent(critic_hidden=[64, 64])), DenseNet)
    vec = make_vec(EnvConfig(id="MountainCar-v0", wrappers=[{"frame_stack": {"n": 4}}]), 2, "train")
    assert vec.obs_space["obs"].shape == (8,)
    agent = Agent(vec.obs_space, vec.action_space, AgentConfig(normalize_obs=True), 0.99)
    assert isinstance(choose_net(agent), DenseNet)
    vec.close()


AFTERWARDS = {
    "frozen layer": freeze,
    "forward hook": lambda agent: agent.actor_body.register_forward_hook(lambda *_: None),
    "parameters moved": lambda agent: agent.double().float(),
    "another activation": replace_activation,
    "another layer in its place": lambda agent: setattr(agent, "critic_out", nn.Linear(64, 1)),
    "another normaliser": lambda agent: setattr(agent, "normalizer", copy.deepcopy(agent.normalizer)),
}


@pytest.mark.parametrize("change", AFTERWARDS)
def test_a_change_after_the_choice_is_noticed(change: str) -> None:
    agent = make_agent(normalize_obs=True)
    net = choose_net(agent)
    assert isinstance(net, DenseNet)
    assert net.holds()
    AFTERWARDS[change](agent)
    assert not net.holds()


@pytest.mark.parametrize("algo", [PPOConfig(n_epochs=2), A2CConfig(), ReinforceConfig()], ids=lambda algo: algo.name)
@pytest.mark.parametrize("shared", [True, False])
def test_a_frozen_layer_does_not_move(algo: AlgoSettings, shared: bool) -> None:
    agent = make_agent(shared=shared)
    freeze(agent)
    before = copy.deepcopy(agent.state_dict())
    learner = make_learner(choose_net(agent), algo)
    for progress in (0.0, 0.1):
        learner.update(experience(agent, 16, 4, drift=0.1), progress)
    for name, tensor in agent.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("actor_body.layers.0."), name


def test_a_layer_frozen_between_two_learns_stays_where_it_is() -> None:
    """The model chose its network before: freezing, and thawing again, are noticed, and the optimizer goes on."""
    model = gymnast.PPO("CartPole-v1", n_steps=32, n_envs=2, batch_size=64, n_epochs=1, seed=0)
    layer = model.policy.actor_body.layers[0].weight

    def learned() -> tuple[bool, bool, int]:
        before = layer.detach().clone(), model.policy.actor_out.weight.detach().clone()
        model.learn(64, reset_num_timesteps=False)
        steps = int(model.net.save_state()["actor_out.weight/step"])
        return not torch.equal(layer, before[0]), not torch.equal(model.policy.actor_out.weight, before[1]), steps

    assert learned() == (True, True, 1)
    assert isinstance(model.net, DenseNet)
    freeze(model.policy)
    assert learned() == (False, True, 2)
    assert isinstance(model.net, TorchNet)
    model.policy.requires_grad_(True)
    assert learned() == (True, True, 3)
