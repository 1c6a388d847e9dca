"""`gymnast envs audit` on envs whose rewards and sameness are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

from gymnast.report.charts.text import histogram
from gymnast.verbs.envs.audit import audit_env
from tests.envs_for_tests import Counting, full_id

RHYTHM = "AuditRhythm-v0"


class Rhythm(Counting):
    """The rewards it was given, one after another; an episode is all of them once."""

    def __init__(self, rewards: list[float]) -> None:
        super().__init__(length=len(rewards))
        self.rewards = rewards

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, self.rewards[self.t - 1], terminated, truncated, info


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gym.register(RHYTHM, entry_point=Rhythm)
    yield
    del gym.registry[RHYTHM]


def audit(env_id: str, n_envs: int, steps: int, *settings: str, seed: int = 0) -> dict[str, Any]:
    few = [f"env.n_envs={n_envs}", "algo.n_steps=64", "algo.batch_size=64"]
    return audit_env(env_id, [*few, *settings], steps, seed).to_json()


def rhythm(rewards: list[float], n_envs: int, steps: int) -> dict[str, Any]:
    return audit(RHYTHM, n_envs, steps, f"env.kwargs.rewards={rewards}")


def test_sparse_rewards_on_paper() -> None:
    """Every 10th step pays 1: 40 steps of 2 envs are 80 samples with 8 rewards, always 10 steps apart."""
    reward = rhythm([0.0] * 9 + [1.0], 2, 40)["reward"]
    assert reward["mean"] == pytest.approx(0.1)
    assert reward["std"] == pytest.approx(0.3)  # sqrt(0.1 x 0.9)
    assert reward["zero_fraction"] == pytest.approx(0.9)
    assert reward["samples_per_reward"] == pytest.approx(10.0)
    assert {reward["steps_between_rewards"][key] for key in ("min", "mean", "median", "max")} == {10.0}
    assert reward["histogram"] == [{"low": 0.0, "high": 0.0, "count": 72}, {"low": 1.0, "high": 1.0, "count": 8}]


def test_parts_of_a_shaped_reward_are_shown() -> None:
    """CartPole pays 1 a step, and its potential is weighed by 2."""
    data = audit("CartPole-v1", 2, 150, "env.shaping.centring=2")
    parts = data["episodes"]["components"]
    assert list(parts) == ["env", "centring"]
    assert parts["env"]["mean"] == data["episodes"]["return"]["mean"]
    assert parts["centring"]["max"] < 0  # gamma x 0 at the end, minus the potential of about 1 at the start


def test_episodes() -> None:
    """5 steps of 1 to 5 come to 15. Of 12 steps 2 episodes an env are whole."""
    data = audit(full_id("Counting-v0"), 3, 12)
    episodes = data["episodes"]
    assert (episodes["count"], episodes["terminated"], episodes["truncated"]) == (6, 6, 0)
    assert (episodes["return"]["mean"], episodes["return"]["std"]) == (15.0, 0.0)
    assert (episodes["length"]["min"], episodes["length"]["max"]) == (5.0, 5.0)
    assert data["steps"] == 36


def test_outlier_on_paper() -> None:
    """One reward of 500 is another: sqrt(499 / 1) = 22.3 standard deviations from the mean, however large it is."""
    data = rhythm([1.0] * 499 + [1000.0], 1, 500)
    outliers = data["reward"]["outliers"]
    assert (outliers["count"], outliers["fraction"]) == (1, 1 / 500)
    assert outliers["furthest"] == pytest.approx(499**0.5, rel=1e-6)


def test_extreme_rewards_are_reported_where_nothing_tames_them() -> None:
    settings = [f"env.kwargs.rewards={[1.0] * 499 + [1000.0]}", "agent.normalize_reward=false"]
    assert any("22 standard deviations away" in warning for warning in audit(RHYTHM, 1, 500, *settings)["warnings"])
    tamed = [*settings, "env.reward.clip=10"]
    assert not any("deviations" in warning for warning in audit(RHYTHM, 1, 500, *tamed)["warnings"])


def test_no_reward_at_all() -> None:
    data = rhythm([0.0] * 5, 2, 20)
    assert data["reward"]["samples_per_reward"] is None
    assert data["reward"]["steps_between_rewards"]["mean"] is None
    assert any("no reward at all" in warning for warning in data["warnings"])


def test_copies_that_do_not_differ_are_reported() -> None:
    data = audit(full_id("Counting-v0"), 4, 10)
    assert data["parallel"] == {"steps": 10, "first_observations": 1, "trajectories": 1}
    assert data["seeding"] == {"same_seed_same": True, "differs_from_step": None, "other_seed_differs": False}
    assert any("all 4 envs run the same" in warning and "whatever the seed" in warning for warning in data["warnings"])
    # Observations 0 to 4, each with one of two actions: at most 10 kinds among 40.
    assert data["transitions"]["distinct"] <= 10 / 40
    assert data["transitions"]["distinct_at_once"] <= 2 / 4  # they stand on the same field: two actions


def test_seeded_envs_differ_and_repeat() -> None:
    data = audit(full_id("SeedEcho-v0"), 4, 10)
    assert data["parallel"] == {"steps": 10, "first_observations": 4, "trajectories": 4}
    assert data["seeding"] == {"same_seed_same": True, "differs_from_step": None, "other_seed_differs": True}
    assert data["transitions"] == {"distinct": 1.0, "distinct_at_once": 1.0}
    assert [warning for warning in data["warnings"] if "other actions" not in warning] == []  # which it does not read


def test_actions_without_effect_on_rewards_and_ends_are_reported() -> None:
    def says_so(data: dict[str, Any]) -> bool:
        return any("other actions changed no reward and no end" in warning for warning in data["warnings"])

    assert says_so(audit(RHYTHM, 2, 50, "env.kwargs={rewards: [1, 2, 1]}"))
    assert not says_so(audit("CartPole-v1", 2, 50))


def test_an_env_that_ignores_its_seed_is_reported() -> None:
    data = audit(full_id("Unseeded-v0"), 2, 10)
    assert not data["seeding"]["same_seed_same"]
    assert data["seeding"]["differs_from_step"] is not None
    assert any("no run can be repeated" in warning for warning in data["warnings"])


def test_the_same_seed_audits_the_same() -> None:
    assert audit("FrozenLake-v1", 4, 50, seed=3) == audit("FrozenLake-v1", 4, 50, seed=3)
    assert audit("FrozenLake-v1", 4, 50, seed=3) != audit("FrozenLake-v1", 4, 50, seed=4)


def test_masks_are_kept_to() -> None:
    """Without the -10 of a forbidden pick-up: with masks no reward is worse than a step's -1."""
    assert audit("Taxi-v4", 8, 200)["reward"]["min"] == -10.0
    masked = audit("Taxi-v4", 8, 200, "env.action_masks=true")
    assert masked["reward"]["min"] == -1.0
    assert masked["seeding"]["same_seed_same"]


def test_bars_show_what_is_rare() -> None:
    """20 columns less 1 for the name and 10 for the share are 10 at least: the longest bar."""
    most, some, little, none = (line.plain for line in histogram([("a", 1000), ("b", 500), ("c", 1), ("d", 0)], 20))
    assert most == f"a {'█' * 10} 66.62%"  # 1000 of 1501
    assert some == f"b {'█' * 5} 33.31%"
    assert little == "c ▏ 0.07%"
    assert none.strip() == "d"
