"""The agent: what it starts as, what it normalises, and that learning sees the probabilities it acted with."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, VALUE, Batch
from gymnast.agent.normalizer import ObsNormalizer, RewardNormalizer, RunningMoments
from gymnast.config import AgentConfig
from gymnast.core.errors import UserError
from tests.learners_for_tests import as_batch

VECTOR = {"obs": gym.spaces.Box(-np.inf, np.inf, (4,))}
OBSERVATIONS = {
    "vector": VECTOR,
    "image": {"obs": gym.spaces.Box(0, 255, (3, 8, 8), np.uint8)},
    "discrete": {"obs": gym.spaces.Discrete(7)},
    "multi_discrete": {"obs": gym.spaces.MultiDiscrete([3, 4])},
    "multi_binary": {"obs": gym.spaces.MultiBinary(5)},
    "dict": {"position": gym.spaces.Box(-1, 1, (2,)), "inventory/slot": gym.spaces.Discrete(3)},
}
CONFIGS = {
    "plain": AgentConfig(),
    "shared": AgentConfig(shared=True, activation="relu", layer_norm=True),
    "embedding": AgentConfig(discrete_encoding="embedding", embedding_dim=4, hidden=[8]),
    "normalised": AgentConfig(normalize_obs=True, normalize_reward=True),
    "no_hidden": AgentConfig(hidden=[]),
}


def observations(space: dict[str, gym.Space], rows: int) -> dict[str, torch.Tensor]:
    for leaf in space.values():
        leaf.seed(0)
    return {key: torch.as_tensor(np.stack([leaf.sample() for _ in range(rows)])) for key, leaf in space.items()}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("space", OBSERVATIONS)
def test_act_and_evaluate_agree_for_every_observation(space: str, config: str) -> None:
    agent = Agent(OBSERVATIONS[space], gym.spaces.Discrete(3), CONFIGS[config], 0.99)
    obs = observations(OBSERVATIONS[space], 32)
    acted = agent.act(obs, sample=torch.Generator().manual_seed(0))
    evaluated = agent.evaluate(Batch({OBS + key: rows for key, rows in obs.items()} | {"action": acted.action}))
    value = acted.values[VALUE]
    torch.testing.assert_close(acted.logp, evaluated.logp.detach(), atol=1e-6, rtol=0)
    torch.testing.assert_close(value, evaluated.values[VALUE].detach(), atol=1e-6, rtol=0)
    torch.testing.assert_close(value, agent.values(obs)[VALUE], atol=1e-6, rtol=0)
    assert acted.state == {}  # nothing lasts between steps


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"])
def test_the_first_policy_is_nearly_uniform(activation: str) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        agent = Agent(VECTOR, gym.spaces.Discrete(4), AgentConfig(activation=activation), 0.99)
        obs = torch.randn(512, 4)
        logp = torch.stack([agent.evaluate(as_batch(obs, action=torch.full((512,), a))).logp for a in range(4)], 1)
        assert float((logp.detach().exp() - 0.25).abs().max()) < 0.02
        # Mean action of a uniform policy over 0..3 is 1.5, its standard deviation sqrt(5/4) = 1.118.
        action = agent.act({"obs": torch.randn(20_000, 4)}, sample=torch.Generator().manual_seed(seed)).action
        assert abs(float(action.float().mean()) - 1.5) < 0.05
        assert abs(float(action.float().std()) - 1.118) < 0.03


def test_the_first_continuous_policy_is_centred() -> None:
    agent = Agent(VECTOR, gym.spaces.Box(0.0, 10.0, (2,)), AgentConfig(log_std_init=-1.0), 0.99)
    acted = agent.act({"obs": torch.randn(20_000, 4)}, sample=torch.Generator().manual_seed(0))
    sent = agent.head.to_env(acted.action.numpy())
    assert abs(sent.mean() - 5.0) < 0.1
    assert abs(float(acted.action.std()) - np.exp(-1.0)) < 0.02


def test_parts_hold_every_parameter_once() -> None:
    for cfg in CONFIGS.values():
        agent = Agent(VECTOR, gym.spaces.Box(-1, 1, (2,)), cfg, 0.99)
        listed = [id(p) for group in agent.parts().values() for p in group]
        assert sorted(listed) == sorted(id(p) for p in agent.parameters())


def test_running_moments_equal_numpy_on_all_that_was_seen() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(3.0, 2.0, (n, 5)) for n in (1, 7, 100, 2)]
    moments = RunningMoments((5,))
    for batch in batches:
        moments.update(torch.tensor(batch))
    everything = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.var, everything.var(0), rtol=1e-12)
    assert float(moments.count) == 110


def test_observations_are_scaled_clipped_and_only_where_real_valued() -> None:
    normalizer = ObsNormalizer(OBSERVATIONS["dict"], clip=2.0)
    seen = {"position": torch.tensor([[0.0, 10.0], [2.0, 30.0]]), "inventory/slot": torch.tensor([1, 2])}
    normalizer.update(seen)
    # Means 1 and 20, standard deviations 1 and 10: 2 -> (2-1)/1 = 1, 100 -> (100-20)/10 = 8, clipped to 2.
    scaled = normalizer({"position": torch.tensor([[2.0, 100.0]]), "inventory/slot": torch.tensor([2])})
    torch.testing.assert_close(scaled["position"], torch.tensor([[1.0, 2.0]]), atol=1e-5, rtol=0)
    assert scaled["inventory/slot"].tolist() == [2]


def test_whole_numbers_are_scaled_and_bytes_and_bits_are_not() -> None:
    def box(low: int, high: int, dtype: type) -> gym.Space[Any]:
        return gym.spaces.Box(low, high, (2,), dtype)

    kinds = {"count": box(-900, 900, np.int64), "byte": box(0, 255, np.uint8), "bit": box(0, 1, np.int8)}
    normalizer = ObsNormalizer(kinds, clip=10.0)
    assert normalizer.keys == ["count"]
    normalizer.update({"count": torch.tensor([[0, 100], [200, 300]])})  # means 100 and 200, both 100 from them
    scaled = normalizer({"count": torch.tensor([[200, 100]]), "byte": torch.tensor([[7, 7]])})
    torch.testing.assert_close(scaled["count"], torch.tensor([[1.0, -1.0]]), atol=1e-5, rtol=0)
    agent = Agent({"obs": kinds["count"]}, gym.spaces.Discrete(2), CONFIGS["normalised"], 0.99)
    acted = agent.act({"obs": torch.tensor([[900, -900]])})
    assert acted.values["value"].isfinite().all()


def test_actions_without_bounds_bring_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    Agent(VECTOR, gym.spaces.Box(-np.inf, np.inf, (2,), np.float32), CONFIGS["plain"], 0.99)
    assert not [warning for warning in recwarn if issubclass(warning.category, RuntimeWarning)]


@pytest.mark.parametrize("memory", [None, "lstm"])
def test_a_critic_has_sizes_of_its_own(memory: Literal["lstm"] | None) -> None:
    space = {"obs": gym.spaces.Box(-1, 1, (3,))}
    agent = Agent(space, gym.spaces.Discrete(2), AgentConfig(hidden=[8], critic_hidden=[32, 16], memory=memory), 0.99)
    sizes = [[layer.out_features for layer in body.layers[::2]] for body in (agent.actor_body, agent.critic_body)]
    assert sizes == [[8], [32, 16]]
    assert agent.act({"obs": torch.zeros(5, 3)}).values["value"].shape == (5,)


def test_reward_normaliser_on_paper() -> None:
    normalizer = RewardNormalizer(gamma=0.5, clip=10.0)
    reward = torch.tensor([[2.0], [2.0], [4.0]])
    ended = torch.tensor([[False], [True], [False]])
    carry = torch.zeros(1, dtype=torch.float64)
    scaled = normalizer.update_and_scale(reward, ended, carry)
    # Discounted returns so far: 2, 2 * 0.5 + 2 = 3, then a new episode: 4. Mean 3, variance 2/3.
    torch.testing.assert_close(scaled, reward / np.sqrt(2 / 3), atol=1e-5, rtol=0)
    assert carry.tolist() == [4.0]  # the second episode goes on in the next rollout


def test_a_value_is_shown_in_the_envs_own_reward() -> None:
    """The learner's reward is the env's times 0.5, then divided by the returns' standard deviation, sqrt(2/3)."""
    cfg = AgentConfig(normalize_reward=True)
    agent = Agent(VECTOR, gym.spaces.Discrete(2), cfg, 0.5, reward_scales=(0.5,))
    assert agent.reward_normalizer is not None
    reward, ended = torch.tensor([[2.0], [2.0], [4.0]]), torch.tensor([[False], [True], [False]])
    agent.reward_normalizer.update_and_scale(reward, ended, torch.zeros(1, dtype=torch.float64))
    obs = torch.randn(3, 4)
    value, shown = agent.values({"obs": obs})[VALUE], agent.describe(as_batch(obs))[VALUE]
    torch.testing.assert_close(shown, value * np.sqrt(2 / 3) / 0.5)


def test_statistics_are_saved_with_the_agent_and_used_when_loaded() -> None:
    cfg = AgentConfig(normalize_obs=True, normalize_reward=True)
    agent = Agent(VECTOR, gym.spaces.Discrete(2), cfg, 0.99)
    assert agent.normalizer is not None
    agent.normalizer.update({"obs": torch.randn(100, 4) * 50 + 7})
    other = Agent(VECTOR, gym.spaces.Discrete(2), cfg, 0.99)
    other.load_state_dict(agent.state_dict())
    obs = {"obs": torch.randn(10, 4) * 50 + 7}
    torch.testing.assert_close(agent.values(obs)[VALUE], other.values(obs)[VALUE], rtol=0, atol=0)


def test_an_observation_without_an_encoder_is_refused_with_the_way_out() -> None:
    with pytest.raises(UserError, match="Add the wrapper `flatten`"):
        Agent({"obs": gym.spaces.Text(4)}, gym.spaces.Discrete(2), AgentConfig(), 0.99)
