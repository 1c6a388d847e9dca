"""LunarLander with drawn physics: reproducible, within its ranges, felt by the lander, unknown to other envs."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.box2d import lunar_lander as original

from gymnast.config import EnvConfig, load, load_facts
from gymnast.core.errors import UserError
from gymnast.envs.make import choose_engine, make_env, make_vec
from gymnast.envs.suites.own.lunar_lander import RandomisedLunarLander
from gymnast.envs.types import EpisodeRecord

ID = "gymnast/RandomisedLunarLander-v0"
RANGES: dict[str, list[float]] = {
    "gravity": [-12, -8],
    "wind_power": [0, 15],
    "turbulence_power": [0, 1.5],
    "main_engine_power": [11, 15],
    "side_engine_power": [0.5, 0.7],
}


def flight(env: gym.Env[Any, Any], seed: int, actions: Any) -> tuple[np.ndarray, list[float]]:
    observations, rewards = [env.reset(seed=seed)[0]], []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(observation)
        rewards.append(float(reward))
        if terminated or truncated:
            break
    return np.array(observations), rewards


@pytest.mark.parametrize("continuous", [False, True])
def test_without_ranges_it_is_lunar_lander(continuous: bool) -> None:
    ours, theirs = RandomisedLunarLander(continuous=continuous), gym.make("LunarLander-v3", continuous=continuous)
    theirs.action_space.seed(0)
    actions = [theirs.action_space.sample() for _ in range(200)]
    for seed in range(3):
        (a, paid), (b, expected) = flight(ours, seed, actions), flight(theirs, seed, actions)
        np.testing.assert_array_equal(a, b)
        assert paid == expected
    windy = gym.make("LunarLander-v3", continuous=continuous, enable_wind=True, wind_power=9.0, turbulence_power=1.0)
    ours = RandomisedLunarLander(continuous=continuous, wind_power=9.0, turbulence_power=1.0)
    np.testing.assert_array_equal(flight(ours, 0, actions)[0], flight(windy, 0, actions)[0])


def test_a_seed_is_an_episode_and_seeds_differ() -> None:
    env = RandomisedLunarLander(**RANGES)  # type: ignore[arg-type]
    actions = np.random.default_rng(0).integers(0, 4, 60).tolist()
    first, _ = flight(env, 7, actions)
    drawn = env.physics
    other, _ = flight(env, 8, actions)
    assert env.physics != drawn
    np.testing.assert_array_equal(flight(env, 7, actions)[0], first)  # whatever was flown in between
    np.testing.assert_array_equal(flight(copy.deepcopy(env), 7, actions)[0], first)
    assert env.physics == drawn
    assert not np.array_equal(other, first)
    env.reset()
    assert env.physics != drawn  # without a seed: new ones all the same


def test_each_drawn_number_is_felt() -> None:
    """Speeds after a few steps from one start: y' = g t without engines; engines push in proportion to their power."""

    def velocity(action: int, steps: int = 5, **physics: float) -> np.ndarray:
        env = RandomisedLunarLander(**physics)  # type: ignore[arg-type]
        return flight(env, 0, [action] * steps)[0][-1]

    usual = velocity(0)
    # 5 + 1 steps (reset makes one) of 1/50 s: 2 m/s^2 more make 0.24 m/s; the observation is v * (400/30/2) / 50
    assert usual[3] - velocity(0, gravity=-12.0)[3] == pytest.approx(0.24 * 400 / 30 / 2 / 50, rel=0.02)
    gain, double = velocity(2)[3] - usual[3], velocity(2, main_engine_power=26.0)[3] - usual[3]
    assert double / gain == pytest.approx(2.0, rel=0.05)
    turn, more = velocity(1)[5] - usual[5], velocity(1, side_engine_power=1.2)[5] - usual[5]
    assert more / turn == pytest.approx(2.0, rel=0.1)
    assert abs(velocity(0, wind_power=15.0)[2] - usual[2]) > 1e-3
    assert abs(velocity(0, turbulence_power=2.0)[5] - usual[5]) > 1e-4


def test_nothing_leaks_into_other_envs() -> None:
    plain, strong = gym.make("LunarLander-v3"), RandomisedLunarLander(main_engine_power=20.0, gravity=-6.0)
    weak = RandomisedLunarLander(main_engine_power=8.0)
    actions = [2] * 30
    before = flight(plain, 0, actions)[0]
    tops = {}
    for env in (strong, weak):
        env.reset(seed=0)
    for _ in range(30):  # side by side, each with its own engine
        for name, env in (("strong", strong), ("weak", weak)):
            tops[name] = env.step(2)[0][1]
    np.testing.assert_array_equal(flight(plain, 0, actions)[0], before)
    assert tops["strong"] > before[-1][1] > tops["weak"]
    assert original.MAIN_ENGINE_POWER == 13.0
    assert original.SIDE_ENGINE_POWER == 0.6


def episodes(role: Any, count: int = 60) -> list[EpisodeRecord]:
    config = load("LunarLander-v3:randomised").config
    assert choose_engine(config.env, config.env.n_envs)[0] == "sync"
    env = make_vec(config.env, 8, role)
    records: list[EpisodeRecord] = []
    env.reset(11)
    while len(records) < count:
        records += env.step(np.zeros(8, np.int64)).episodes
    env.close()
    return records


@pytest.mark.parametrize("role", ["train", "eval"])
def test_training_and_evaluation_draw_from_all_of_the_ranges(role: str) -> None:
    records = episodes(role)
    for name, (low, high) in RANGES.items():
        drawn = np.array([record.info[name] for record in records])
        assert len(set(drawn)) == len(records)  # no two episodes alike
        assert low <= drawn.min() < low + 0.25 * (high - low)  # 60 uniform draws miss a quarter once in 3e7 times
        assert high - 0.25 * (high - low) < drawn.max() <= high
    # gravity shows in how long a fall takes: the heavier half falls faster
    order = sorted(records, key=lambda record: record.info["gravity"])
    heavy, light = order[:30], order[30:]
    assert np.mean([r.length for r in heavy]) < np.mean([r.length for r in light])


def test_the_preset_says_what_it_draws() -> None:
    variant, facts = load("LunarLander-v3:randomised"), load_facts(ID)
    assert facts is not None
    assert variant.config.env.id == ID
    assert variant.config.env.kwargs == facts.kwargs == load(ID).config.env.kwargs == RANGES
    assert (variant.threshold, variant.config.train.total_timesteps) == (200, 3_000_000)


@pytest.mark.parametrize(
    "wrong", [[-8, -12], [-20, -8], [-10], ["a", "b"], "heavy", True, [-10, -9, -8], [float("nan"), -8]]
)
def test_wrong_ranges_are_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"env.kwargs: gravity is .* must be a number or a range \[low, high\] within"):
        make_env(EnvConfig(id=ID, kwargs={"gravity": wrong}))
