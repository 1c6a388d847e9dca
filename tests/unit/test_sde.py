"""State-dependent exploration (`agent.std: sde`) against stable-baselines3, and how long its noise lasts."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch

from gymnast.agent.agent import Agent
from gymnast.agent.batch import VALUE
from gymnast.agent.nets import choose_net
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.config import AgentConfig, EnvConfig
from gymnast.core.errors import UserError
from gymnast.envs.make import make_vec
from gymnast.play.player import play
from gymnast.rl.algos.ppo import PPOConfig
from gymnast.rl.rollout import Rollout
from tests.learners_for_tests import as_batch, experience, make_learner
from tests.unit.test_learners import ENVS, STEPS, VECTOR, copy_weights, sb3_update

BOX = gym.spaces.Box(-1.0, 1.0, (2,))
ROWS = 64


def both(**policy: Any) -> tuple[Any, Agent]:
    """Their policy with gSDE and our agent with the same weights, far from where they start."""

    class Spaces(gym.Env[Any, Any]):
        observation_space, action_space = VECTOR["obs"], BOX

    kwargs = {"log_std_init": -0.7, **policy}
    theirs = sb3.PPO("MlpPolicy", Spaces(), n_steps=64, use_sde=True, policy_kwargs=kwargs, seed=0, device="cpu")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in theirs.policy.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    agent = Agent(VECTOR, BOX, AgentConfig(std="sde", sde_expln=policy.get("use_expln", False)), 0.99)
    copy_weights(theirs.policy, agent)
    return theirs.policy, agent


def observations(rows: int = ROWS) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("expln", [False, True])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (1.0, 0.1)], ids=["logp", "entropy", "both"])
def test_log_probability_entropy_and_gradients_equal_stable_baselines3(
    weights: tuple[float, float], expln: bool
) -> None:
    # parameters on both sides of 0, where the two forms of the standard deviation meet
    policy, agent = both(use_expln=True, log_std_init=0.1) if expln else both()
    obs, actions = observations(), torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(1))
    value, logp, entropy = policy.evaluate_actions(obs, actions)
    ours = agent.evaluate(as_batch(obs, action=actions))
    torch.testing.assert_close(ours.logp, logp, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.entropy, entropy, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.values[VALUE], value[:, 0], atol=1e-5, rtol=0)
    logp_weight, entropy_weight = weights
    (logp_weight * logp.mean() + entropy_weight * entropy.mean()).backward()
    (logp_weight * ours.logp.mean() + entropy_weight * ours.entropy.mean()).backward()
    expected = Agent(VECTOR, BOX, AgentConfig(std="sde"), 0.99)
    for parameter in policy.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    copy_weights(policy, expected)  # gradients, by our names
    for name, parameter in agent.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(gradient, expected.state_dict()[name], atol=1e-5, rtol=0, msg=name)
    if logp_weight == 0.0:  # the features make the noise, and the noise does not make the features
        assert all(parameter.grad is None or not parameter.grad.any() for parameter in agent.actor_body.parameters())


def test_the_same_matrices_give_the_same_actions() -> None:
    policy, agent = both()
    obs = observations()
    acted = agent.act({"obs": obs}, sample=torch.Generator().manual_seed(2))
    policy.action_dist.exploration_matrices = acted.state["sde_matrix"]
    with torch.no_grad():
        action, _, logp = policy(obs, deterministic=False)
    torch.testing.assert_close(acted.action, action, atol=1e-5, rtol=0)
    torch.testing.assert_close(acted.logp, logp, atol=1e-5, rtol=0)
    again = agent.evaluate(as_batch(obs, action=acted.action))
    torch.testing.assert_close(acted.logp, again.logp.detach(), atol=1e-6, rtol=0)


def test_over_all_matrices_actions_have_the_standard_deviation_that_their_probability_says() -> None:
    _, agent = both()
    obs = observations(1).expand(50_000, 4)
    acted = agent.act({"obs": obs}, sample=torch.Generator().manual_seed(0))
    said = agent.describe(as_batch(obs[:1]))
    # The relative standard error of a standard deviation is 1 / sqrt(2 * 50000) = 0.003; of a mean, 0.0045 of them.
    torch.testing.assert_close(acted.action.std(0), said["std"][0], rtol=0.015, atol=0)
    assert float(((acted.action.mean(0) - said["mean"][0]) / said["std"][0]).abs().max()) < 0.02


def test_a_ppo_update_equals_stable_baselines3() -> None:
    options = {"n_epochs": 3, "batch_size": STEPS * ENVS, "learning_rate": 1e-2, "ent_coef": 0.01}
    agent = Agent(VECTOR, BOX, AgentConfig(std="sde"), 0.99)

    def collect() -> Rollout:
        return experience(agent, STEPS, ENVS, drift=0.1)

    theirs, expected = sb3_update(agent, BOX, collect, options | {"use_sde": True})
    learner = make_learner(TorchNet(agent), PPOConfig(n_steps=STEPS, **options))
    metrics = learner.update(collect(), 0.0)
    for name in ("policy_gradient_loss", "value_loss", "entropy_loss", "clip_fraction"):
        assert float(metrics[f"train/{name}"]) == pytest.approx(expected[f"train/{name}"], abs=1e-5), name
    assert float(agent.std() or 0.0) == pytest.approx(expected["train/std"], abs=1e-5)
    trained = Agent(VECTOR, BOX, AgentConfig(std="sde"), 0.99)
    copy_weights(theirs.policy, trained)
    for name, tensor in trained.state_dict().items():
        torch.testing.assert_close(agent.state_dict()[name], tensor, atol=1e-5, rtol=0, msg=name)


@pytest.mark.parametrize("lasts", [None, 4])
def test_noise_stays_for_so_many_steps_and_differs_between_envs(lasts: int | None) -> None:
    agent = Agent(VECTOR, BOX, AgentConfig(std="sde", sde_sample_freq=lasts), 0.99)
    obs = {"obs": observations(1).expand(3, 4)}
    generator = torch.Generator().manual_seed(0)
    state = agent.initial_state(3)
    actions = []
    for _ in range(8):
        acted = agent.act(obs, state, sample=generator)
        actions.append(acted.action)
        state = acted.state
    for t in range(1, 8):
        assert torch.equal(actions[t], actions[t - 1]) == (lasts is None or t % lasts != 0), t
    assert len({tuple(row.tolist()) for row in actions[0]}) == 3
    assert not torch.equal(
        agent.act(obs, agent.head.renew(state), sample=generator).action, actions[-1]
    )  # a new rollout


def test_noise_outlives_the_end_of_an_episode() -> None:
    """As stable-baselines3 has it: what ends is the env's business, the matrix stays as long as it was meant to."""
    agent = Agent(VECTOR, BOX, AgentConfig(std="sde"), 0.99)
    obs, generator = {"obs": observations(2)}, torch.Generator().manual_seed(0)
    first = agent.act(obs, agent.initial_state(2), sample=generator)
    second = agent.act(obs, first.state, starts=torch.tensor([True, False]), sample=generator)
    assert torch.equal(first.action, second.action)


def test_each_episode_that_is_evaluated_has_its_own_matrix() -> None:
    """Otherwise the episodes of one env would be one sample."""
    config = EnvConfig(id="Pendulum-v1", max_episode_steps=5)
    env = make_vec(config, 2, "eval")
    net = TorchNet(Agent(env.obs_space, env.action_space, AgentConfig(std="sde"), 0.99))
    moments = list(islice(play(net, env, 0, deterministic=False), 15))
    env.close()
    # the state before acting: at step t + 1 there is the matrix that step t has acted with
    matrices = [moment.state["sde_matrix"] for moment in moments[1:]]
    same = [[torch.equal(a[i], b[i]) for i in range(2)] for a, b in pairwise(matrices)]
    assert same == [[(t + 1) % 5 != 0] * 2 for t in range(len(same))]


def test_rollouts_store_memories_and_no_noise() -> None:
    agent = Agent(VECTOR, BOX, AgentConfig(std="sde", memory="lstm", memory_size=8), 0.99)
    rollout = Rollout(32, 2, agent, sequence_length=16)
    assert sorted(rollout.states) == ["actor.c", "actor.h", "critic.c", "critic.h"]
    assert rollout.states.keys() < agent.initial_state(2).keys()


def test_greedy_actions_are_the_means_and_draw_nothing() -> None:
    agent = Agent(VECTOR, BOX, AgentConfig(std="sde"), 0.99)
    net = choose_net(agent)
    obs = {"obs": observations(3)}
    arrays, none = {"obs": obs["obs"].numpy()}, np.zeros(3, np.bool_)
    generator = torch.Generator().manual_seed(0)
    before = net.act(arrays, agent.initial_state(3), none, None, generator).state
    drawn = generator.get_state()
    with torch.no_grad():
        means = agent.actor_out(agent.actor_body(obs)).numpy()
    greedy = net.act(arrays, before, none, None, None)
    np.testing.assert_allclose(greedy.action, means, atol=1e-6)
    assert before["sde_matrix"].any()
    assert all(torch.equal(greedy.state[name], rows) for name, rows in before.items())
    assert torch.equal(generator.get_state(), drawn)


def test_discrete_actions_are_refused_with_the_way_out() -> None:
    with pytest.raises(UserError, match=r"agent.std: sde is for continuous actions, .* Discrete\(2\). Leave it out"):
        Agent(VECTOR, gym.spaces.Discrete(2), AgentConfig(std="sde"), 0.99)
