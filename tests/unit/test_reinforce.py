"""REINFORCE: its gradient against closed forms, what a baseline does to it, and which steps it learns from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from gymnast.agent.agent import Agent
from gymnast.config import AgentConfig
from gymnast.rl.algos.reinforce import Reinforce, ReinforceConfig
from gymnast.rl.rollout import Rollout
from tests.learners_for_tests import NETS, as_batch, gradients
from tests.learners_for_tests import make_learner as learner_of

NOTHING = {"obs": gym.spaces.Box(-1, 1, (1,))}
BASELINES = ("none", "mean", "value")


def reinforce(agent: Agent, config: ReinforceConfig, net: str = "dense") -> Reinforce:
    learner = learner_of(NETS[net](agent), config)
    assert isinstance(learner, Reinforce)
    return learner


def make_learner(baseline: str, agent: Agent, net: str = "dense", **options: Any) -> Reinforce:
    """One whose gradient is left as it is: not normalised, not clipped, a step too small to matter."""
    target = "returns" if baseline == "none" else "advantages"
    plain = {"normalize_advantage": "off", "vf_coef": 0.0, "max_grad_norm": 1e9, "learning_rate": 1e-12, "gamma": 1.0}
    return reinforce(agent, ReinforceConfig(baseline=baseline, target=target, **{**plain, **options}), net)


def softmax_agent(probabilities: list[float], obs: dict[str, gym.Space[Any]] = NOTHING) -> Agent:
    """A softmax without layers that has these probabilities where the observation is zero."""
    agent = Agent(obs, gym.spaces.Discrete(len(probabilities)), AgentConfig(hidden=[]), 0.99)
    with torch.no_grad():
        agent.actor_out.bias.copy_(torch.tensor(probabilities).log())
    return agent


def bandit_rollout(agent: Agent, actions: Tensor, reward: Tensor) -> Rollout:
    """One-step episodes of a bandit: every step of its one env ends its episode."""
    rollout = Rollout(len(actions), 1, agent)
    rollout.obs["obs"].zero_()
    rollout["action"][:, 0], rollout["reward"][:, 0] = actions, reward
    with torch.no_grad():
        rollout["logp"][:, 0] = agent.evaluate(as_batch(rollout.obs["obs"][:, 0], action=actions)).logp
    rollout["terminated"].fill_(True)
    rollout["truncated"].fill_(False)
    return rollout


def sampled_rollout(agent: Agent, steps: int, payout: Tensor, seed: int = 0) -> Rollout:
    acted = agent.act({"obs": torch.zeros(steps, 1)}, sample=torch.Generator().manual_seed(seed))
    return bandit_rollout(agent, acted.action, payout[acted.action])


def ascent(learner: Reinforce) -> Tensor:
    """The direction in which the expected payout grows, by the last update."""
    return -gradients(learner.net)["actor_out.bias"]


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("baseline", BASELINES)
def test_reinforce_gradient_equals_the_analytic_one_on_a_bandit(baseline: str, net: str) -> None:
    """The gradient of the expected payout with respect to a softmax's logits is p_i (r_i - sum_j p_j r_j).

    Each arm is pulled as often as its probability says, so the mean over pulls is the expectation itself: no noise,
    and a baseline, whatever its value, must not change a digit.
    """
    p, payout = [0.5, 0.3, 0.2], torch.tensor([1.0, 3.0, -2.0])
    agent = softmax_agent(p)
    with torch.no_grad():
        agent.critic_out.bias.fill_(0.7)
    learner = make_learner(baseline, agent, net)
    learner.mean_return = 0.9
    actions = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    learner.update(bandit_rollout(agent, actions, payout[actions]), 0.0)
    # Expected payout 0.5 + 0.9 - 0.4 = 1: 0.5 (1 - 1), 0.3 (3 - 1), 0.2 (-2 - 1).
    torch.testing.assert_close(ascent(learner), torch.tensor([0.0, 0.6, -0.6]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("baseline", BASELINES)
def test_gradient_of_two_step_episodes_equals_that_of_the_expected_return(baseline: str, net: str) -> None:
    """Reward a + 2 a b for first action a and second b, the second seen in another state: every episode, weighed.

    The exact expected return is differentiated by autograd. REINFORCE's loss is a mean over steps, two an episode,
    so its gradient is half of that.
    """
    agent = softmax_agent([0.75, 0.25])
    with torch.no_grad():
        agent.actor_out.weight.copy_(torch.tensor([[0.0], [np.log(3.0)]]))  # in state 1: odds 3 * 1/3, so 1/2 each
    # Chances 3/8, 3/8, 1/8, 1/8 of (0,0), (0,1), (1,0), (1,1): eight episodes have all of them as often as they occur.
    episodes = [(0, 0)] * 3 + [(0, 1)] * 3 + [(1, 0), (1, 1)]
    rollout = Rollout(2, len(episodes), agent)
    rollout.obs["obs"][0], rollout.obs["obs"][1] = 0.0, 1.0
    rollout["action"].copy_(torch.tensor(episodes).T)
    first, second = rollout["action"].float()
    rollout["reward"][0], rollout["reward"][1] = first, 2 * first * second
    rollout["logp"].zero_()
    rollout["terminated"][0], rollout["terminated"][1] = False, True
    rollout["truncated"].fill_(False)
    learner = make_learner(baseline, agent, net)
    learner.mean_return = 0.4
    learner.update(rollout, 0.0)

    states = torch.tensor([[0.0], [1.0]])
    a, b = torch.softmax(agent.actor_out(states), 1)[:, 1]
    expected = torch.autograd.grad(a + 2 * a * b, [agent.actor_out.weight, agent.actor_out.bias])
    found = gradients(learner.net)
    for name, gradient in zip(("actor_out.weight", "actor_out.bias"), expected, strict=True):
        torch.testing.assert_close(-2 * found[name], gradient, atol=1e-6, rtol=0)


def test_a_baseline_lowers_the_variance_of_the_gradient_and_leaves_its_mean_alone() -> None:
    """300 gradients of 8 sampled pulls for each baseline, as training would make them: the running mean is moved by
    every update, the critic knows the mean payout."""
    p, payout = [0.6, 0.4], torch.tensor([10.0, 11.0])
    exact = torch.tensor([-0.24, 0.24])  # p_i (r_i - 10.4): 0.6 * -0.4 and 0.4 * 0.6
    updates = 300
    variance: dict[str, float] = {}
    for baseline in BASELINES:
        agent = softmax_agent(p)
        with torch.no_grad():
            agent.critic_out.bias.fill_(10.4)
        learner = make_learner(baseline, agent)
        learner.update(sampled_rollout(agent, 8, payout, seed=updates), 0.0)  # the running mean is no longer 0
        found = []
        for seed in range(updates):
            learner.update(sampled_rollout(agent, 8, payout, seed), 0.0)
            found.append(ascent(learner))
        table = torch.stack(found)
        variance[baseline] = float(table.var(0).sum())
        error = (table.mean(0) - exact) / (table.std(0) / np.sqrt(updates))
        assert float(error.abs().max()) < 4.0, f"{baseline}: {error} standard errors off"  # 1 of 16000 by chance
    # One pull's component is p_0 p_1-like times the weight: weights near 10 without a baseline, below 1 with one.
    assert variance["mean"] < 0.02 * variance["none"]
    assert variance["value"] < 0.02 * variance["none"]


def test_the_running_mean_is_moved_only_after_it_was_used() -> None:
    agent = softmax_agent([0.5, 0.5])
    learner = make_learner("mean", agent)
    actions = torch.tensor([0, 1])
    used = [float(learner.update(bandit_rollout(agent, actions, torch.tensor(r)), 0.0)["train/baseline"]) for r in (
        [1.0, 3.0],
        [5.0, 7.0],
        [0.0, 0.0],
    )]  # fmt: skip
    assert used == [0.0, 2.0, 4.0]  # nothing yet; the mean of 1, 3; the mean of 1, 3, 5, 7
    assert learner.mean_return == pytest.approx(16 / 6)


def update_with_critic(value: float, baseline: str) -> tuple[Tensor, float]:
    """The actor's gradient and the loss where the critic says `value` to everything, episodes cut by a time limit."""
    agent = softmax_agent([0.5, 0.3, 0.2])
    with torch.no_grad():
        agent.critic_out.weight.zero_()
        agent.critic_out.bias.fill_(value)
    rollout = sampled_rollout(agent, 64, torch.tensor([1.0, 2.0, 3.0]))
    for numbers in (rollout["value"], rollout["final_value"], rollout.last_values["value"]):
        numbers.fill_(value)
    rollout["terminated"].fill_(False)
    rollout["truncated"].fill_(True)
    learner = make_learner(baseline, agent)
    metrics = learner.update(rollout, 0.0)
    return ascent(learner), float(metrics["train/policy_gradient_loss"])


@pytest.mark.parametrize("baseline", ["none", "mean"])
def test_reinforce_never_asks_the_value_for_returns(baseline: str) -> None:
    """A critic that is a million off changes nothing, not even where a time limit cut the episodes."""
    sane, mad = update_with_critic(0.0, baseline), update_with_critic(1e6, baseline)
    assert torch.equal(sane[0], mad[0])
    assert sane[1] == mad[1]


def test_the_critic_learns_from_returns_that_do_not_contain_it() -> None:
    """With `baseline: value`: the loss of the value is its squared distance to the rewards alone."""
    agent = softmax_agent([0.5, 0.5])
    with torch.no_grad():
        agent.critic_out.bias.fill_(4.0)
    learner = make_learner("value", agent, vf_coef=1.0)
    metrics = learner.update(bandit_rollout(agent, torch.tensor([0, 1]), torch.tensor([1.0, 2.0])), 0.0)
    assert float(metrics["train/value_loss"]) == pytest.approx((3.0**2 + 2.0**2) / 2)
    assert float(metrics["train/baseline"]) == 4.0


def test_kl_is_that_from_collection_to_after_the_step() -> None:
    """Schulman's estimate of the samples' KL, ratio - 1 - ln ratio, worked out from the two policies themselves."""
    agent = softmax_agent([0.5, 0.3, 0.2])
    learner = make_learner("none", agent, learning_rate=0.05)
    rollout = sampled_rollout(agent, 256, torch.tensor([1.0, 3.0, -2.0]))
    before = torch.softmax(agent.actor_out.bias.detach(), 0).clone()
    metrics = learner.update(rollout, 0.0)
    with torch.no_grad():
        after = torch.softmax(agent.actor_out(torch.zeros(1, 1))[0], 0)
    ratio = (after / before)[rollout["action"][:, 0]]
    expected = float((ratio - 1 - ratio.log()).mean())
    assert expected > 1e-4  # Adam moves each logit by 0.05
    assert float(metrics["train/approx_kl"]) == pytest.approx(expected, rel=1e-3)


def counting_rollouts(agent: Agent) -> Callable[[], Rollout]:
    """Rollouts of 3 steps of two envs with episodes of 5; rewards 0, 1, 2, ..., so every step can be recognised."""
    step = 0

    def following() -> Rollout:
        nonlocal step
        rollout = Rollout(3, 2, agent)
        rollout.obs["obs"].zero_()
        rollout["action"].zero_()
        rollout["logp"].zero_()
        rollout["truncated"].fill_(False)
        for t in range(3):
            rollout["reward"][t] = torch.tensor([step, step + 1000.0])
            rollout["terminated"][t] = (step + 1) % 5 == 0
            step += 1
        return rollout

    return following


def test_reinforce_waits_for_whole_episodes_and_throws_nothing_away() -> None:
    agent = Agent(NOTHING, gym.spaces.Discrete(2), AgentConfig(), 0.99)
    learner = reinforce(agent, ReinforceConfig(gamma=1.0))
    following = counting_rollouts(agent)
    seen: list[float] = []
    learned_returns: list[float] = []
    for _ in range(10):
        data = learner.complete_episodes(following())
        if data is not None:
            seen += data["reward"].tolist()
            learned_returns += data["returns"].tolist()
            assert bool(data["ended"][-1])
    waiting = [reward for columns in learner.pending for reward in columns["reward"].tolist()]
    assert sorted(seen + waiting) == sorted([*map(float, range(30)), *(1000.0 + i for i in range(30))])
    assert len(waiting) == 0  # 30 steps are six whole episodes an env
    # The first episode's rewards are 0..4: returns 10, 10, 9, 7, 4.
    assert learned_returns[:5] == [10.0, 10.0, 9.0, 7.0, 4.0]


def test_no_step_is_made_before_an_episode_has_ended() -> None:
    agent = Agent(NOTHING, gym.spaces.Discrete(2), AgentConfig(), 0.99)
    learner = reinforce(agent, ReinforceConfig())
    following = counting_rollouts(agent)
    before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}

    def moved() -> bool:
        return any(not torch.equal(tensor, before[name]) for name, tensor in agent.state_dict().items())

    first = learner.update(following(), 0.0)  # steps 0..2 of episodes of 5
    assert float(first["train/complete_episodes"]) == 0
    assert float(first["train/pending_steps"]) == 6
    assert "train/loss" not in first
    assert not moved()
    second = learner.update(following(), 0.0)  # steps 3..5: both envs' first episodes are whole
    assert float(second["train/complete_episodes"]) == 2
    assert float(second["train/pending_steps"]) == 2
    assert moved()


def test_an_unfinished_episode_whose_columns_differ_in_length_is_refused() -> None:
    learner = make_learner("value", softmax_agent([0.5, 0.5]))
    learner.pending = [
        {"reward": torch.ones(3), "ended": torch.zeros(3)},
        {"reward": torch.ones(0), "ended": torch.ones(0)},
    ]
    tensors, values = learner.save_state()
    learner.load_state(tensors, values, optimizer=True, episodes=True)
    assert [len(columns["reward"]) for columns in learner.pending] == [3, 0]
    with pytest.raises(ValueError, match="not of one length"):
        learner.load_state({**tensors, "pending/0/ended": torch.zeros(2)}, values, optimizer=True, episodes=True)
