"""The algorithms' arithmetic: against stable-baselines3 step by step, and against analytic gradients."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import Logger
from torch.nn import functional as F

from gymnast.agent import Agent
from gymnast.config import A2CConfig, AgentConfig, PPOConfig, ReinforceConfig
from gymnast.rl.a2c import A2C
from gymnast.rl.learner import explained_variance, normalized
from gymnast.rl.ppo import PPO
from gymnast.rl.reinforce import Reinforce
from gymnast.rl.rollout import Batch, Rollout, minibatches

VECTOR = {"obs": gym.spaces.Box(-np.inf, np.inf, (4,))}
STEPS, ENVS = 16, 4
ACTIONS = {"discrete": gym.spaces.Discrete(2), "box": gym.spaces.Box(-1.0, 1.0, (2,))}


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


def experience(space: gym.Space, agent: Agent, drift: float) -> Rollout:
    """A rollout of random numbers, collected by a slightly different policy so that ratios are not all one."""
    rng = torch.Generator().manual_seed(0)
    rollout = Rollout(STEPS, ENVS, agent)
    rollout.obs["obs"].copy_(torch.randn(STEPS, ENVS, 4, generator=rng))
    flat = {"obs": rollout.obs["obs"].flatten(0, 1)}
    acted = agent.act(flat, generator=rng)
    rollout.action.copy_(acted.action.reshape(rollout.action.shape))
    noise = drift * torch.randn(STEPS, ENVS, generator=rng)
    rollout.logp.copy_(acted.logp.reshape(STEPS, ENVS) + noise)
    rollout.value.copy_(acted.value.reshape(STEPS, ENVS))
    rollout.advantage.copy_(torch.randn(STEPS, ENVS, generator=rng))
    rollout.returns.copy_(rollout.advantage + rollout.value)
    return rollout


class Recorded(Logger):
    def __init__(self) -> None:
        super().__init__(folder=None, output_formats=[])


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
def test_ppo_update_equals_stable_baselines3(actions: str, options: dict[str, Any], monkeypatch: Any) -> None:
    """Three epochs of one full batch: losses, KL, clip fraction and every weight afterwards."""
    space = ACTIONS[actions]
    settings = {"n_epochs": 3, "batch_size": STEPS * ENVS, "learning_rate": 1e-2, "clip_range": 0.15} | options

    class Spaces(gym.Env[Any, Any]):
        observation_space, action_space = VECTOR["obs"], space

    theirs = sb3.PPO("MlpPolicy", Spaces(), n_steps=STEPS * ENVS, seed=0, device="cpu", **settings)
    agent = Agent(VECTOR, space, AgentConfig(), 0.99)
    copy_weights(theirs.policy, agent)
    rollout = experience(space, agent, drift=0.1)

    buffer = RolloutBuffer(STEPS, VECTOR["obs"], space, n_envs=ENVS)
    for t in range(STEPS):
        buffer.add(
            rollout.obs["obs"][t].numpy(),
            rollout.action[t].numpy(),
            np.zeros(ENVS),
            np.zeros(ENVS),
            rollout.value[t],
            rollout.logp[t],
        )
    buffer.advantages, buffer.returns = rollout.advantage.numpy().copy(), rollout.returns.numpy().copy()
    theirs.rollout_buffer = buffer
    theirs._logger = Recorded()
    theirs.train()
    expected = theirs.logger.name_to_value

    ours = PPO(agent, PPOConfig(n_steps=STEPS, **settings), torch.Generator().manual_seed(0))
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
    batch = experience(ACTIONS["discrete"], agent, drift=0.2).flat()
    learner = PPO(agent, PPOConfig(clip_range=0.1, ent_coef=0.02, vf_coef=0.3), torch.Generator())
    loss, metrics = learner.loss(batch, 0.0)
    gradients = torch.autograd.grad(loss, learner.parameters)

    x = batch.obs["obs"]
    layers, value_layers = agent.actor_body.layers, agent.critic_body.layers
    policy = torch.distributions.Categorical(logits=agent.actor_out(layers(x)))
    value = agent.critic_out(value_layers(x))[:, 0]
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    ratio = (policy.log_prob(batch.action) - batch.logp).exp()
    surrogate = torch.min(ratio * advantage, ratio.clamp(0.9, 1.1) * advantage).mean()
    expected = -surrogate + 0.3 * F.mse_loss(value, batch.returns) - 0.02 * policy.entropy().mean()
    torch.testing.assert_close(loss, expected, atol=1e-6, rtol=0)
    for mine, theirs in zip(gradients, torch.autograd.grad(expected, learner.parameters), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    kl = (ratio - 1 - ratio.log()).mean().detach()
    assert float(metrics["train/approx_kl"]) == pytest.approx(float(kl), abs=1e-6)
    assert float(metrics["train/clip_fraction"]) == pytest.approx(float(((ratio - 1).abs() > 0.1).float().mean()))


def test_a2c_is_ppo_with_one_epoch_one_batch_and_no_clip() -> None:
    def trained(make: Any) -> Agent:
        torch.manual_seed(0)
        agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
        make(agent).update(experience(ACTIONS["discrete"], agent, drift=0.0), 0.0)
        return agent

    shared = {"learning_rate": 1e-2, "n_steps": STEPS, "vf_coef": 0.5, "ent_coef": 0.01, "max_grad_norm": 0.5}
    one_step = {"n_epochs": 1, "batch_size": STEPS * ENVS, "clip_range": 1e9, "normalize_advantage": "off"}
    ppo = trained(lambda agent: PPO(agent, PPOConfig(**shared, **one_step), torch.Generator()))
    a2c = trained(lambda agent: A2C(agent, A2CConfig(**shared, optimizer="adam"), torch.Generator()))
    for name, tensor in ppo.state_dict().items():
        torch.testing.assert_close(a2c.state_dict()[name], tensor, atol=1e-6, rtol=0, msg=name)


def test_huber_loss_is_linear_for_large_errors() -> None:
    agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
    learner = PPO(agent, PPOConfig(value_loss="huber", huber_delta=2.0), torch.Generator())
    # delta 2: an error of 1 costs 0.5 * 1, an error of 10 costs 2 * (10 - 1) = 18; the mean is 9.25.
    assert float(learner.value_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 10.0]))) == pytest.approx(9.25)


def test_gradient_norms_are_those_before_clipping() -> None:
    agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
    learner = PPO(agent, PPOConfig(max_grad_norm=1e-3), torch.Generator())
    loss, _ = learner.loss(experience(ACTIONS["discrete"], agent, drift=0.0).flat(), 0.0)
    gradients = torch.autograd.grad(loss, learner.parameters, retain_graph=True)
    total = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    norms = learner.gradient_step(loss)
    torch.testing.assert_close(norms["train/grad_norm"], total)
    squares = norms["train/grad_norm/actor"] ** 2 + norms["train/grad_norm/critic"] ** 2
    torch.testing.assert_close(squares.sqrt(), total)
    clipped = torch.stack([p.grad.square().sum() for p in learner.parameters if p.grad is not None]).sum().sqrt()
    assert float(clipped) == pytest.approx(1e-3, rel=1e-2)


def test_a_jump_of_the_learning_rate_resets_the_optimizer_where_asked() -> None:
    schedule = {"points": [[0, 1e-3], [0.5, 1e-3], [0.5, 1e-4]]}
    for limit, resets in ((None, 0), (5.0, 1), (20.0, 0)):
        agent = Agent(VECTOR, ACTIONS["discrete"], AgentConfig(), 0.99)
        config = PPOConfig(learning_rate=schedule, batch_size=64, n_epochs=1, reset_optimizer_on_lr_jump=limit)
        learner = PPO(agent, config, torch.Generator().manual_seed(0))
        rollout = experience(ACTIONS["discrete"], agent, drift=0.0)
        for progress in (0.0, 0.25, 0.75, 1.0):
            metrics = learner.update(rollout, progress)
        assert float(metrics["train/optimizer_resets"]) == resets
        assert float(metrics["train/learning_rate"]) == pytest.approx(1e-4)
        steps = next(iter(learner.optimizer.state.values()))["step"]
        assert int(steps) == (2 if resets else 4)


def test_explained_variance_on_paper() -> None:
    returns = torch.tensor([1.0, 2.0, 3.0])
    assert float(explained_variance(returns, returns)) == 1.0
    assert float(explained_variance(torch.full((3,), 2.0), returns)) == 0.0
    assert float(explained_variance(-returns, returns)) == -3.0  # errors 2, 4, 6: variance 4 against 1
    assert math.isnan(explained_variance(returns, torch.ones(3)))


def test_normalized_leaves_a_single_sample_alone() -> None:
    assert normalized(torch.tensor([3.0])).tolist() == [3.0]
    scaled = normalized(torch.tensor([1.0, 3.0]))  # mean 2, unbiased spread sqrt(2)
    torch.testing.assert_close(scaled, torch.tensor([-1.0, 1.0]) / np.sqrt(2))


def test_minibatches_visit_every_sample_once_an_epoch_in_a_new_order() -> None:
    n = 60
    index = torch.arange(n, dtype=torch.float32)
    batch = Batch({"obs": index[:, None]}, index, index, index, index, index, None)
    generator = torch.Generator().manual_seed(0)
    orders = []
    for _ in range(3):
        seen = [part.logp for part in minibatches(batch, 20, generator)]
        assert [len(part) for part in seen] == [20, 20, 20]
        orders.append(torch.cat(seen))
        assert sorted(orders[-1].tolist()) == index.tolist()
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[1], orders[2])


# REINFORCE


def bandit_rollout(agent: Agent, steps: int, payout: torch.Tensor, seed: int = 0) -> Rollout:
    """One-step episodes of a bandit: every step of its one env ends its episode."""
    rollout = Rollout(steps, 1, agent)
    rollout.obs["obs"].zero_()
    acted = agent.act({"obs": rollout.obs["obs"][:, 0]}, generator=torch.Generator().manual_seed(seed))
    rollout.action[:, 0], rollout.logp[:, 0], rollout.value[:, 0] = acted.action, acted.logp, acted.value
    rollout.reward[:, 0] = payout[acted.action]
    rollout.terminated.fill_(True)
    rollout.truncated.fill_(False)
    return rollout


@pytest.mark.parametrize("baseline", ["none", "mean", "value"])
def test_reinforce_gradient_equals_the_analytic_one_on_a_bandit(baseline: str) -> None:
    """The gradient of the expected payout with respect to a softmax's logits is p_i (r_i - sum_j p_j r_j)."""
    payout = torch.tensor([1.0, 3.0, -2.0])
    torch.manual_seed(0)
    agent = Agent({"obs": gym.spaces.Box(-1, 1, (1,))}, gym.spaces.Discrete(3), AgentConfig(hidden=[]), 0.99)
    with torch.no_grad():
        agent.actor_out.bias.copy_(torch.tensor([0.2, -0.3, 0.5]))
        agent.critic_out.bias.fill_(0.7)
    p = torch.softmax(agent.actor_out.bias.detach(), 0)
    analytic = p * (payout - (p * payout).sum())
    config = ReinforceConfig(
        baseline=baseline,
        target="returns" if baseline == "none" else "advantages",
        normalize_advantage="off",
        vf_coef=0.0,
        max_grad_norm=1e9,
        learning_rate=1e-12,
    )
    learner = Reinforce(agent, config, torch.Generator())
    learner.mean_return = 0.9  # any constant: a baseline must not move the mean
    n = 400_000
    learner.update(bandit_rollout(agent, n, payout), 0.0)
    assert agent.actor_out.bias.grad is not None
    # One sample's gradient has a spread below 3, so the mean's is below 3 / sqrt(400000) = 0.005.
    torch.testing.assert_close(-agent.actor_out.bias.grad, analytic, atol=0.02, rtol=0)


def test_a_good_baseline_lowers_the_variance_of_the_gradient() -> None:
    payout = torch.tensor([10.0, 11.0])
    spreads = {}
    for baseline in ("none", "mean", "value"):
        agent = Agent({"obs": gym.spaces.Box(-1, 1, (1,))}, gym.spaces.Discrete(2), AgentConfig(hidden=[]), 0.99)
        with torch.no_grad():
            agent.critic_out.bias.fill_(10.5)
        config = ReinforceConfig(
            baseline=baseline,
            target="returns" if baseline == "none" else "advantages",
            normalize_advantage="off",
            vf_coef=0.0,
            max_grad_norm=1e9,
            learning_rate=1e-12,
        )
        learner = Reinforce(agent, config, torch.Generator())
        learner.mean_return, learner.mean_count = 10.5, 10**9
        gradients = []
        for seed in range(200):
            learner.update(bandit_rollout(agent, 8, payout, seed), 0.0)
            assert agent.actor_out.bias.grad is not None
            gradients.append(agent.actor_out.bias.grad.clone())
        spreads[baseline] = float(torch.stack(gradients).var(0).sum())
    assert spreads["mean"] < 0.05 * spreads["none"]
    assert spreads["value"] < 0.05 * spreads["none"]


def test_reinforce_waits_for_whole_episodes_and_throws_nothing_away() -> None:
    """Rewards count 0, 1, 2, ... so every step can be recognised; episodes of length 5 over rollouts of 3 steps."""
    agent = Agent({"obs": gym.spaces.Box(-1, 1, (1,))}, gym.spaces.Discrete(2), AgentConfig(), 0.99)
    learner = Reinforce(agent, ReinforceConfig(gamma=1.0), torch.Generator())
    seen: list[float] = []
    learned_returns: list[float] = []
    step = 0
    for _ in range(10):
        rollout = Rollout(3, 2, agent)
        rollout.obs["obs"].zero_()
        rollout.action.zero_()
        rollout.logp.zero_()
        rollout.truncated.fill_(False)
        for t in range(3):
            rollout.reward[t] = torch.tensor([step, step + 1000.0])
            rollout.terminated[t] = (step + 1) % 5 == 0
            step += 1
        data = learner.complete_episodes(rollout)
        if data is not None:
            seen += data["reward"].tolist()
            learned_returns += data["returns"].tolist()
            assert bool(data["ended"][-1])
    waiting = [reward for columns in learner.pending for reward in columns["reward"].tolist()]
    assert sorted(seen + waiting) == sorted([*map(float, range(30)), *(1000.0 + i for i in range(30))])
    assert len(waiting) == 0  # 30 steps are six whole episodes an env
    # The first episode's rewards are 0..4: returns 10, 10, 9, 7, 4.
    assert learned_returns[:5] == [10.0, 10.0, 9.0, 7.0, 4.0]


def test_reinforce_never_asks_the_value_for_returns() -> None:
    agent = Agent({"obs": gym.spaces.Box(-1, 1, (1,))}, gym.spaces.Discrete(2), AgentConfig(), 0.99)
    payout = torch.tensor([1.0, 2.0])
    learner = Reinforce(agent, ReinforceConfig(), torch.Generator())
    rollout = bandit_rollout(agent, 16, payout)
    rollout.value.fill_(1e6)
    rollout.final_value.fill_(1e6)
    rollout.last_value.fill_(1e6)
    rollout.terminated.fill_(False)
    rollout.truncated.fill_(True)  # cut by a time limit: still only rewards count
    data = learner.complete_episodes(rollout)
    assert data is not None
    assert torch.equal(data["returns"], data["reward"])
