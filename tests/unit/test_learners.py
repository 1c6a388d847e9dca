"""PPO's and A2C's arithmetic: against stable-baselines3 step by step, and against independent formulas."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import Logger
from torch.nn import functional as F

from gymnast.agent.agent import Agent
from gymnast.agent.nets import kernels
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.config import AgentConfig
from gymnast.rl.algos.a2c import A2CConfig
from gymnast.rl.algos.ppo import PPO, PPOConfig
from gymnast.rl.learner import Expression, explained_variance, normalized
from gymnast.rl.rollout import Rollout
from tests.learners_for_tests import NETS, as_batch, experience, gradients, make_learner

VECTOR = {"obs": gym.spaces.Box(-np.inf, np.inf, (4,))}
STEPS, ENVS = 16, 4
ACTIONS = {"discrete": gym.spaces.Discrete(2), "box": gym.spaces.Box(-1.0, 1.0, (2,))}
COLUMNS = ["action", "logp", "value", "advantage", "returns"]


def copy_weights(policy: Any, agent: Agent) -> None:
    """An SB3 policy's weights in our agent: the same network under other names."""
    state = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    names = {
        "mlp_extractor.policy_net.": "actor_body.layers.",
        "mlp_extractor.value_net.": "critic_body.layers.",
        "action_net.": "actor_out.",
        "value_net.": "critic_out.",
        "log_std": "head.log_std",
    }
    ours = {}
    for name, tensor in state.items():
        for theirs, mine in names.items():
            if name.startswith(theirs):
                ours[name.replace(theirs, mine, 1)] = tensor
                break
    agent.load_state_dict(ours)


class Recorded(Logger):
    def __init__(self) -> None:
        super().__init__(folder=None, output_formats=[])


def sb3_update(
    agent: Agent, space: gym.Space, collect: Callable[[], Rollout], options: dict[str, Any]
) -> tuple[Any, dict[str, float]]:
    """An update of stable-baselines3's PPO: gives `agent` the weights it begins with, then learns from a rollout.

    Returns the model as it is afterwards, and what it logged.
    """

    class Spaces(gym.Env[Any, Any]):
        observation_space, action_space = VECTOR["obs"], space

    theirs = sb3.PPO("MlpPolicy", Spaces(), n_steps=STEPS * ENVS, seed=0, device="cpu", **options)
    copy_weights(theirs.policy, agent)
    rollout = collect()
    buffer = RolloutBuffer(STEPS, VECTOR["obs"], space, n_envs=ENVS)
    for t in range(STEPS):
        buffer.add(
            rollout.obs["obs"][t].numpy(),
            rollout["action"][t].numpy(),
            np.zeros(ENVS),
            np.zeros(ENVS),
            rollout["value"][t],
            rollout["logp"][t],
        )
    buffer.advantages, buffer.returns = rollout["advantage"].numpy().copy(), rollout["returns"].numpy().copy()
    theirs.rollout_buffer = buffer
    theirs._logger = Recorded()
    theirs.train()
    return theirs, theirs.logger.name_to_value


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip_range_vf": 0.1, "ent_coef": 0.01},
        {"normalize_advantage": False, "vf_coef": 0.25, "max_grad_norm": 0.05},
        {"target_kl": 0.001},
        {"n_epochs": 1},
    ],
)
def test_ppo_update_equals_stable_baselines3(actions: str, options: dict[str, Any], net: str) -> None:
    """Three epochs of one full batch: losses, KL, clip fraction and every weight afterwards."""
    space = ACTIONS[actions]
    settings = {"n_epochs": 3, "batch_size": STEPS * ENVS, "learning_rate": 1e-2, "clip_range": 0.15} | options

    agent = Agent(VECTOR, space, AgentConfig(), 0.99)
    theirs, expected = sb3_update(agent, space, lambda: experience(agent, STEPS, ENVS, drift=0.1), settings)
    rollout = experience(agent, STEPS, ENVS, drift=0.1)
    ours = make_learner(NETS[net](agent), PPOConfig(n_steps=STEPS, **settings))
    metrics = {name: float(value) for name, value in ours.update(rollout, 0.0).items()}

    def close(name: str, value: float) -> None:
        assert metrics[name] == pytest.approx(value, abs=1e-5), name

    close("train/policy_gradient_loss", expected["train/policy_gradient_loss"])
    close("train/value_loss", expected["train/value_loss"])
    close("train/entropy_loss", expected["train/entropy_loss"])
    close("train/explained_variance", expected["train/explained_variance"])
    close("train/clip_fraction", expected["train/clip_fraction"])
    if settings["n_epochs"] == 1:  # SB3 reports the last epoch's KL, we the mean over all of them
        close("train/approx_kl", expected["train/approx_kl"])
    trained = Agent(VECTOR, space, AgentConfig(), 0.99)
    copy_weights(theirs.policy, trained)
    for name, tensor in trained.state_dict().items():
        torch.testing.assert_close(agent.state_dict()[name], tensor, atol=1e-5, rtol=0, msg=name)


def test_ppo_gradient_equals_an_independent_formula() -> None:
    """The clipped objective written out with torch.distributions, differentiated by autograd."""
    agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
    batch = experience(agent, STEPS, ENVS, drift=0.2).batch(COLUMNS)
    learner = make_learner(TorchNet(agent), PPOConfig(clip_range=0.1, ent_coef=0.02, vf_coef=0.3))
    assert isinstance(learner, PPO)
    loss, metrics = learner.loss(agent.evaluate(batch), batch, 0.0)
    parameters = list(agent.parameters())
    gradients = torch.autograd.grad(loss, parameters)

    x = batch.obs["obs"]
    layers, value_layers = agent.actor_body.layers, agent.critic_body.layers
    policy = torch.distributions.Categorical(logits=agent.actor_out(layers(x)))
    value = agent.critic_out(value_layers(x))[:, 0]
    advantage = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
    ratio = (policy.log_prob(batch["action"]) - batch["logp"]).exp()
    surrogate = torch.min(ratio * advantage, ratio.clamp(0.9, 1.1) * advantage).mean()
    expected = -surrogate + 0.3 * F.mse_loss(value, batch["returns"]) - 0.02 * policy.entropy().mean()
    torch.testing.assert_close(loss, expected, atol=1e-6, rtol=0)
    for mine, theirs in zip(gradients, torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    kl = (ratio - 1 - ratio.log()).mean().detach()
    assert float(metrics["train/approx_kl"]) == pytest.approx(float(kl), abs=1e-6)
    assert float(metrics["train/clip_fraction"]) == pytest.approx(float(((ratio - 1).abs() > 0.1).float().mean()))


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("normalize", ["off", "batch"])
def test_a2c_is_ppo_with_one_epoch_one_batch_and_no_clip(actions: str, normalize: Any, net: str) -> None:
    """Where the ratio is 1, the gradient of ratio * advantage is that of logp * advantage."""
    torch.manual_seed(0)
    start = Agent(VECTOR, ACTIONS[actions], AgentConfig(), 0.99)
    shared = {"n_steps": STEPS, "ent_coef": 0.01, "max_grad_norm": 1e9, "normalize_advantage": normalize}
    one_step = {"n_epochs": 1, "batch_size": STEPS * ENVS, "clip_range": 1e9}
    results = []
    for algo in (
        PPOConfig(**shared, **one_step, learning_rate=1e-2),
        A2CConfig(**shared, optimizer="adam", learning_rate=1e-2),
    ):
        learner = make_learner(NETS[net](copy.deepcopy(start)), algo)
        results.append((learner.update(experience(learner.agent, STEPS, ENVS), 0.0), gradients(learner.net)))
    (expected, ppo), (metrics, a2c) = results
    assert list(ppo) == list(a2c) == [name for name, _ in start.named_parameters()]
    for name, gradient in ppo.items():
        assert gradient.any(), name
        torch.testing.assert_close(a2c[name], gradient, atol=1e-6, rtol=1e-5, msg=f"gradient of {name}")
    for name in ("value_loss", "entropy", "grad_norm", "grad_norm/actor", "grad_norm/critic"):
        assert float(metrics[f"train/{name}"]) == pytest.approx(float(expected[f"train/{name}"]), abs=1e-5), name


@pytest.mark.parametrize("net", NETS)
def test_advantages_are_normalised_over_the_rollout_or_over_each_batch(net: str) -> None:
    """`rollout` on raw advantages is `off` on normalised ones; `batch` is another thing where batches are smaller."""
    torch.manual_seed(0)
    start = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)

    def trained(scope: Any, prepare: Callable[[torch.Tensor], torch.Tensor] = lambda advantage: advantage) -> Agent:
        agent = copy.deepcopy(start)
        rollout = experience(agent, STEPS, ENVS)
        rollout["advantage"].copy_(prepare(5 + 3 * rollout["advantage"]))
        config = PPOConfig(batch_size=16, n_epochs=2, learning_rate=1e-2, normalize_advantage=scope)
        make_learner(NETS[net](agent), config).update(rollout, 0.0)
        return agent

    def same(a: Agent, b: Agent) -> bool:
        return all(torch.allclose(x, y, atol=1e-5, rtol=0) for x, y in zip(a.parameters(), b.parameters(), strict=True))

    by_hand = trained("off", lambda advantage: (advantage - advantage.mean()) / (advantage.std() + 1e-8))
    assert same(trained("rollout"), by_hand)
    assert not same(trained("batch"), by_hand)
    assert not same(trained("off"), by_hand)


def test_huber_loss_is_linear_for_large_errors() -> None:
    agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
    learner = make_learner(TorchNet(agent), PPOConfig(value_loss="huber", huber_delta=2.0))
    # delta 2: an error of 1 costs 0.5 * 1, an error of 10 costs 2 * (10 - 1) = 18; the mean is 9.25.
    assert float(learner.value_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 10.0]))) == pytest.approx(9.25)


@pytest.mark.parametrize("net", NETS)
def test_gradient_norms_are_those_before_clipping(net: str) -> None:
    agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
    learner = make_learner(NETS[net](agent), PPOConfig())
    assert isinstance(learner, PPO)
    data = learner.net.prepare(experience(agent, STEPS, ENVS).batch(COLUMNS))
    losses = Expression(lambda out, batch: learner.loss(out, batch, 0.0))
    learner.net.backward(losses.slopes(learner.net.forward(data), data))
    before = gradients(learner.net)
    total = float(torch.stack([gradient.square().sum() for gradient in before.values()]).sum().sqrt())
    norms = learner.net.norm_metrics([learner.net.step(1e-3, 1e-3)], 1e-3)
    assert float(norms["train/grad_norm"]) == pytest.approx(total, rel=1e-5)
    squares = float(norms["train/grad_norm/actor"]) ** 2 + float(norms["train/grad_norm/critic"]) ** 2
    assert math.sqrt(squares) == pytest.approx(total, rel=1e-5)
    assert float(norms["train/grad_clipped_fraction"]) == 1.0
    clipped = torch.stack([gradient.square().sum() for gradient in gradients(learner.net).values()]).sum().sqrt()
    assert float(clipped) == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("net", NETS)
def test_a_jump_of_the_learning_rate_resets_the_optimizer_where_asked(net: str) -> None:
    schedule = {"points": [[0, 1e-3], [0.5, 1e-3], [0.5, 1e-4]]}
    for limit, resets in ((None, 0), (5.0, 1), (20.0, 0)):
        agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
        config = PPOConfig(learning_rate=schedule, batch_size=64, n_epochs=1, reset_optimizer_on_lr_jump=limit)
        learner = make_learner(NETS[net](agent), config)
        rollout = experience(agent, STEPS, ENVS)
        for progress in (0.0, 0.25, 0.75, 1.0):
            metrics = learner.update(rollout, progress)
        assert float(metrics["train/optimizer_resets"]) == resets
        assert float(metrics["train/learning_rate"]) == pytest.approx(1e-4)
        assert int(learner.net.save_state()["actor_out.bias/step"]) == (2 if resets else 4)


@pytest.mark.parametrize("net", NETS)
def test_the_rate_follows_the_kl(net: str) -> None:
    """Times 1.5 below half of what is desired, divided by it above twice of that, the same between, and bounded."""
    agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
    rollout = experience(agent, STEPS, ENVS, drift=0.2)  # a KL of about 0.02, whatever the rate

    def rates(start: float, desired: float) -> list[float]:
        config = PPOConfig(learning_rate=start, batch_size=64, n_epochs=1, desired_kl=desired)
        learner = make_learner(NETS[net](copy.deepcopy(agent)), config)
        return [float(learner.update(rollout, i / 4)["train/learning_rate"]) for i in range(4)]

    learner = make_learner(NETS[net](copy.deepcopy(agent)), PPOConfig(n_epochs=1))
    kl = float(learner.update(rollout, 0.0)["train/approx_kl"])
    assert rates(4e-5, 10 * kl) == pytest.approx([4e-5, 6e-5, 9e-5, 13.5e-5])
    assert rates(4e-5, kl / 10) == pytest.approx([4e-5, 4e-5 / 1.5, 4e-5 / 2.25, 4e-5 / 3.375])
    assert rates(4e-5, kl) == pytest.approx([4e-5] * 4)
    assert rates(6e-3, 1e6) == pytest.approx([6e-3, 9e-3, 1e-2, 1e-2])
    assert rates(2e-5, 1e-9) == pytest.approx([2e-5, 2e-5 / 1.5, 1e-5, 1e-5])


def test_explained_variance_on_paper() -> None:
    returns = torch.tensor([1.0, 2.0, 3.0])
    assert float(explained_variance(returns, returns)) == 1.0
    assert float(explained_variance(torch.full((3,), 2.0), returns)) == 0.0
    assert float(explained_variance(-returns, returns)) == -3.0  # errors 2, 4, 6: variance 4 against 1
    assert math.isnan(explained_variance(returns, torch.ones(3)))


def test_normalized_leaves_a_single_sample_alone() -> None:
    assert normalized(torch.tensor([3.0])).tolist() == [3.0]
    scaled = normalized(torch.tensor([1.0, 3.0]))  # mean 2, unbiased standard deviation sqrt(2)
    torch.testing.assert_close(scaled, torch.tensor([-1.0, 1.0]) / np.sqrt(2))


def test_equal_advantages_are_normalised_to_zero_and_nan_is_passed_on() -> None:
    for constant in torch.rand(50, generator=torch.Generator().manual_seed(0)):
        row = constant.repeat(1, 777)
        assert not normalized(row[0]).any()
        kernels.normalize_rows(found := row.numpy().copy())
        assert not found.any()
    assert normalized(torch.tensor([torch.nan, torch.nan])).isnan().all()
    kernels.normalize_rows(found := np.full((1, 4), np.nan, np.float32))
    assert np.isnan(found).all()


@pytest.mark.parametrize("net", NETS)
def test_minibatches_visit_every_sample_once_an_epoch_in_a_new_order(net: str) -> None:
    n = 60
    index = torch.arange(n, dtype=torch.float32)
    learner = make_learner(NETS[net](Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)), PPOConfig())
    data = learner.net.prepare(as_batch(torch.zeros(n, 4), action=index, logp=-index))
    orders = []
    for _ in range(3):
        parts = list(learner.minibatches(data, 20))
        assert [len(part) for part in parts] == [20, 20, 20]
        orders.append(np.concatenate([part["action"] for part in parts]))
        assert sorted(orders[-1].tolist()) == index.tolist()
        for part in parts:  # columns stay together
            assert (-part["logp"]).tolist() == part["action"].tolist()
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[1], orders[2])
