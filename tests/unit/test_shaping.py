"""Reward shaping: sums by arithmetic, checks that fire, scores that do not move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast.config import EnvConfig, RunConfig, load, validate
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.make import make_training_vec, make_vec
from gymnast.envs.shaping import components as shapers
from gymnast.envs.shaping.components import Potential, Shaper, Signal, find_shaper, shaping_problems
from gymnast.envs.shaping.vec import ShapedVecEnv, check_sum
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.judge.evaluate import evaluate
from gymnast.training.build import build
from gymnast.training.loop import train
from tests.contract.registered import engines_for
from tests.envs_for_tests import full_id
from tests.invariants.conftest import small_config

ENGINES = engines_for("CartPole-v1")
GAMMA = 0.9
# The counting env shows t, so this potential of state t is t + 3
COUNTING = Shaper(1, {"count": Potential("t + 3", lambda state: state[:, 0] + 3.0)})


@pytest.fixture
def opened() -> Iterator[list[VecEnv]]:
    made: list[VecEnv] = []
    yield made
    for env in made:
        env.close()


def counting(opened: list[VecEnv], name: str, shaper: Shaper = COUNTING, n: int = 2, **kwargs: Any) -> ShapedVecEnv:
    plain = make_vec(EnvConfig(id=full_id(name), kwargs=kwargs), n, "train")
    opened.append(plain)
    weights = dict.fromkeys(shaper.components, 2.0)
    return ShapedVecEnv(plain, name, shaper, weights, GAMMA)


def config_of(env_id: str, shaping: dict[str, float], engine: str = "sync", **env: Any) -> RunConfig:
    return validate(
        {
            "env": {"id": env_id, "n_envs": 4, "engine": engine, "shaping": shaping, **env},
            "algo": {"name": "ppo", "n_steps": 16, "batch_size": 64, "gamma": 0.98},
        }
    )


def test_every_step_of_a_potential_by_hand(opened: list[VecEnv]) -> None:
    """phi(t) = t + 3, weight 2, gamma 0.9; three steps, the last of them terminal:
    2 (0.9 * 4 - 3) = 1.2,  2 (0.9 * 5 - 4) = 1.0,  2 (0.9 * 0 - 5) = -10. The env itself pays 1, 2 and 3."""
    env = counting(opened, "Counting-v0", length=3)
    env.reset(0)
    for episode in range(2):  # the next episode starts with its own potential, not with what the last one left
        for paid, extra in ((1.0, 1.2), (2.0, 1.0), (3.0, -10.0)):
            batch = env.step(np.zeros(2, np.int64))
            assert batch.components is not None
            np.testing.assert_allclose(batch.components["env"], paid)
            np.testing.assert_allclose(batch.components["count"], extra)
            np.testing.assert_allclose(batch.reward, paid + extra, rtol=1e-6)
            check_sum(batch)
        record = batch.episodes[0]
        assert record.raw_return == 6.0, episode  # 1 + 2 + 3, whatever was added
        assert record.components == pytest.approx({"env": 6.0, "count": -7.8})  # 1.2 + 1.0 - 10
        assert record.shaped_return == pytest.approx(-1.8)


def test_a_time_limit_keeps_the_potential_of_the_last_state(opened: list[VecEnv]) -> None:
    """Cut after 7 steps at t = 7: the last step gains 2 (0.9 * 10 - 9) = 0, where an end would have given -18."""
    env = counting(opened, "Truncating-v0")
    env.reset(0)
    for _ in range(7):
        batch = env.step(np.zeros(2, np.int64))
    assert batch.truncated.all()
    assert batch.components is not None
    np.testing.assert_allclose(batch.components["count"], 0.0, atol=1e-9)
    batch = env.step(np.zeros(2, np.int64))  # t = 0 to 1 again: 2 (0.9 * 4 - 3)
    assert batch.components is not None
    np.testing.assert_allclose(batch.components["count"], 1.2)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("limit", [500, 6], ids=["terminated", "truncated"])
def test_the_discounted_sum_telescopes_in_every_engine(engine: str, limit: int, opened: list[VecEnv]) -> None:
    """sum_t gamma^t F_t = sum_t (gamma^(t+1) phi(s_t+1) - gamma^t phi(s_t)) = gamma^T phi(s_T) - phi(s_0): all others
    cancel. phi(s_T) is 0 after a fall. Weight 3, so all of it three times."""
    config = config_of("CartPole-v1", {"centring": 3.0}, engine, max_episode_steps=limit)
    env = make_training_vec(config)
    opened.append(env)
    phi = shapers.CARTPOLE.components["centring"].of
    first = env.reset(5).obs["obs"].copy()
    sums, age, seen = np.zeros(4), np.zeros(4), 0
    for action in np.random.default_rng(0).integers(0, 2, (120, 4)):
        batch = env.step(action)
        check_sum(batch)
        assert batch.components is not None
        sums += 0.98**age * batch.components["centring"]
        age += 1
        for record in batch.episodes:
            row = record.env
            last = 0.0 if record.terminated else phi(batch.final_obs["obs"][row : row + 1].astype(float))[0]  # type: ignore[call-arg]
            start = phi(first[row : row + 1].astype(float))[0]  # type: ignore[call-arg]
            assert sums[row] == pytest.approx(3.0 * (0.98**record.length * last - start), abs=1e-9)
            assert record.terminated == (limit == 500)
            assert record.raw_return == record.length
            first[row], sums[row], age[row] = batch.obs["obs"][row], 0.0, 0
            seen += 1
    assert seen > 8


class LyingVecEnv:
    """Says of one component other than what it paid."""

    def __init__(self, env: VecEnv) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: Any) -> StepBatch:
        batch = self._env.step(actions)
        assert batch.components is not None
        batch.components["centring"][2] += 0.25
        return batch


def test_training_stops_where_a_component_lies() -> None:
    session = build(config_of("CartPole-v1", {"centring": 1.0}), None)
    session.collector.env = LyingVecEnv(session.env)  # type: ignore[assignment]
    try:
        with pytest.raises(EnvFailure, match=r"env 2 was paid .*env 1, centring .*add up to"):
            train(session)
    finally:
        session.close()


def batch_of(reward: list[float], **components: list[float]) -> StepBatch:
    flags = np.zeros(len(reward), np.bool_)
    parts = {name: np.array(values) for name, values in components.items()}
    return StepBatch({}, np.array(reward, np.float32), flags, flags, {}, [], None, parts)


def test_the_sum_is_exact_to_a_hundred_thousandth() -> None:
    check_sum(batch_of([1.25, -100.1], env=[1.0, -100.0], x=[0.25, -0.1]))  # rounding of float32 is no lie
    with pytest.raises(EnvFailure, match=r"env 1 was paid 2, but its components \(env 1, x 0.9999\) add up to 1.9999"):
        check_sum(batch_of([2.0, 2.0], env=[1.0, 1.0], x=[1.0, 0.9999]))
    with pytest.raises(EnvFailure, match="nan"):
        check_sum(batch_of([np.nan], env=[1.0], x=[np.nan]))


def test_an_env_whose_own_parts_do_not_add_up_is_refused(opened: list[VecEnv]) -> None:
    env = make_vec(EnvConfig(id=full_id("LyingParts-v0")), 1, "train")
    opened.append(env)
    env.reset(0)
    with pytest.raises(EnvFailure, match=r"reward is 1, but info\['reward_components'\] \(speed 0.5\) add up to 0.5"):
        env.step(np.zeros(1, np.int64))


def test_a_component_of_the_wrong_shape_is_named(opened: list[VecEnv]) -> None:
    wrong = Shaper(1, {"wide": Signal("", lambda state, action, following: state)})
    env = counting(opened, "Counting-v0", wrong)
    env.reset(0)
    with pytest.raises(EnvFailure, match=r"'wide' has the shape \(2, 1\), not one number for each of 2 envs"):
        env.step(np.zeros(2, np.int64))


def test_a_signal_sees_state_action_and_what_came_of_it(opened: list[VecEnv]) -> None:
    seen = Signal("", lambda state, action, following: 100 * state[:, 0] + 10 * action + following[:, 0])
    env = counting(opened, "Counting-v0", Shaper(1, {"seen": seen}), length=2)
    env.reset(0)
    for t, action in ((0, 0), (1, 1), (0, 1)):  # the second step ends the episode: what follows is 2, not the new 0
        batch = env.step(np.full(2, action))
        assert batch.components is not None
        np.testing.assert_allclose(batch.components["seen"], 2.0 * (100 * t + 10 * action + t + 1))


class Corridor(gym.Env[Any, Any]):
    """Cells 0 to 4, begun anywhere: a step past the right end pays 1, past the left one 0.7, and ends it."""

    observation_space = gym.spaces.Box(-1.0, 5.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(5))
        return np.array([self.at], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1 if action else -1
        reward = {5: 1.0, -1: 0.7}.get(self.at, 0.0)
        return np.array([self.at], np.float32), reward, reward > 0.0, False, {}


def best_actions(component: Potential | Signal, opened: list[VecEnv]) -> list[int]:
    """The optimal policy of the shaped corridor: its transitions as the learner sees them, then value iteration."""
    plain = make_vec(EnvConfig(id="corridor"), 4, "train", Corridor)
    opened.append(plain)
    env = ShapedVecEnv(plain, "corridor", Shaper(1, {"extra": component}), {"extra": 1.0}, GAMMA)
    reward, after, ends = np.zeros((5, 2)), np.zeros((5, 2), int), np.ones((5, 2), bool)
    seen = np.zeros((5, 2), bool)
    cells = env.reset(0).obs["obs"][:, 0].astype(int)
    for actions in np.random.default_rng(0).integers(0, 2, (200, 4)):
        batch = env.step(actions)
        following = np.where(batch.terminated, batch.final_obs["obs"][:, 0], batch.obs["obs"][:, 0]).astype(int)
        reward[cells, actions], ends[cells, actions] = batch.reward, batch.terminated
        after[cells, actions] = np.where(batch.terminated, 0, following)
        seen[cells, actions] = True
        cells = batch.obs["obs"][:, 0].astype(int)
    assert seen.all()
    value = np.zeros(5)
    for _ in range(300):
        q = reward + GAMMA * np.where(ends, 0.0, value[after])
        value = q.max(axis=1)
    return q.argmax(axis=1).tolist()


def test_the_best_policy_stays_the_best(opened: list[VecEnv]) -> None:
    """Q' = Q - phi(s) for any potential, so that the greedy actions are equal. A signal may change them.

    From cell 0 the left end pays 0.7 and the right one 0.9^4 = 0.656; from cell 1 it is 0.63 against 0.9^3 = 0.729.
    """
    plain = best_actions(Signal("", lambda state, action, following: np.zeros(len(state))), opened)
    assert plain == [0, 1, 1, 1, 1]
    for seed in range(5):
        phi = np.random.default_rng(seed).normal(0.0, 3.0, 7)  # of cells -1 to 5
        drawn = Potential("", lambda state, phi=phi: phi[state[:, 0].astype(int) + 1])  # type: ignore[misc]
        assert best_actions(drawn, opened) == plain
    hurry = Signal("", lambda state, action, following: np.full(len(state), -1.0))
    # from cell 1: left -1 + 0.9 (0.7 - 1) = -1.27, right -(1 + 0.9 + 0.81 + 0.729) + 0.729 = -2.71
    assert best_actions(hurry, opened)[:2] == [0, 0]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCar-v0", "LunarLander-v3", "LunarLanderContinuous-v3"])
def test_true_returns_are_those_without_shaping(env_id: str, opened: list[VecEnv]) -> None:
    shaper = find_shaper(env_id)
    assert shaper is not None
    shaped = make_training_vec(config_of(env_id, dict.fromkeys(shaper.components, 7.0)))
    plain = make_vec(config_of(env_id, {}).env, 4, "train")
    opened += [shaped, plain]
    runs = []
    for env in (shaped, plain):
        env.reset(3)
        env.action_space.seed(0)
        records: list[EpisodeRecord] = []
        for _ in range(220):
            records += env.step(np.stack([env.action_space.sample() for _ in range(4)])).episodes
        runs.append(records)
    assert len(runs[1]) >= 4
    assert [(r.env, r.raw_return, r.length, r.seed) for r in runs[0]] == [
        (r.env, r.raw_return, r.length, r.seed) for r in runs[1]
    ]
    for record in runs[0]:
        assert record.components["env"] == pytest.approx(record.raw_return, abs=1e-3)
        assert record.components.keys() == {"env", *shaper.components}
        assert sum(record.components.values()) == pytest.approx(record.shaped_return, abs=1e-3)
        assert record.shaped_return != record.raw_return
    assert all(record.shaped_return is None for record in runs[1])


def test_evaluation_and_rows_score_the_env_itself() -> None:
    """A run whose shaping pays -1000 a step: scores are the pole's 1 a step, the learner's reward is not."""
    shaper = Shaper(4, {"pain": Signal("", lambda state, action, following: np.full(len(state), -1000.0))})
    config = small_config("ppo", eval={"every": 2048}, train={"total_timesteps": 4096})
    session = build(config, None)
    rows: list[dict[str, float]] = []
    session.collector.env = ShapedVecEnv(session.env, "CartPole-v1", shaper, {"pain": 1.0}, 0.99)
    session.collector.restart(0)
    try:
        result = train(session, observer=rows.append)
        assert evaluate(session.net, session.judge.env, 2, 0).mean >= 8
    finally:
        session.close()
    last = rows[-1]
    assert last["rollout/ep_rew_mean"] == last["rollout/ep_len_mean"] == last["rollout/component/env"] > 8
    assert last["rollout/component/pain"] == pytest.approx(-1000 * last["rollout/ep_len_mean"])
    assert last["rollout/ep_shaped_rew_mean"] == pytest.approx(-999 * last["rollout/ep_len_mean"])
    assert last["eval/mean_reward"] == last["eval/mean_ep_length"] > 8
    assert result.verdict is not None
    assert result.verdict.evaluation.mean > 8
    assert last["rollout/reward_mean"] == pytest.approx(-999)


def test_stacked_frames_are_read_by_their_newest(opened: list[VecEnv]) -> None:
    stacked = make_training_vec(config_of("MountainCar-v0", {"energy": 5.0}, wrappers=[{"frame_stack": {"n": 3}}]))
    plain = make_training_vec(config_of("MountainCar-v0", {"energy": 5.0}))
    opened += [stacked, plain]
    stacked.reset(1)
    plain.reset(1)
    for action in np.random.default_rng(0).integers(0, 3, (205, 4)):
        np.testing.assert_array_equal(stacked.step(action).reward, plain.step(action).reward)


def test_mountain_car_energy_by_hand() -> None:
    """E = v^2/2 + 0.0025/3 sin(3x): what is missing to sin(1.5), of what is missing at the bottom, sin(3x) = -1."""
    bottom, goal, fast = [-np.pi / 6, 0.0], [0.5, 0.0], [-np.pi / 6, 0.07]
    middle = [0.0, 0.0]  # sin(0) = 0: 0.997495 of 1.997495 is missing
    energy = shapers.MOUNTAIN_CAR.components["energy"].of(np.array([bottom, goal, fast, middle]))  # type: ignore[call-arg]
    assert energy.tolist() == pytest.approx([-1.0, 0.0, 0.0, -0.49937296])


def test_mistakes_name_what_there_is() -> None:
    with pytest.raises(UserError, match=r"env.shaping: CartPole-v1 has no component 'speed'. Known: centring\."):
        config_of("CartPole-v1", {"speed": 1.0})
    with pytest.raises(UserError, match=r"Acrobot-v1 names no extra rewards. Envs that do: CartPole-v1, "):
        config_of("Acrobot-v1", {"centring": 1.0})
    with pytest.raises(UserError, match=r"env.shaping.centring = much: must be a number"):
        config_of("CartPole-v1", {"centring": "much"})  # type: ignore[dict-item]
    for wrapper in ("flatten", "rescale_observation"):
        options = {"rescale_observation": {"mean": 0.0, "std": 1.0}} if wrapper != "flatten" else wrapper
        with pytest.raises(UserError, match=f"env.shaping: .* which the wrapper {wrapper} replaces"):
            make_training_vec(config_of("CartPole-v1", {"centring": 1.0}, wrappers=[options]))
    assert shaping_problems("CartPole-v1", {}, ["centring"]) == []


def test_a_users_env_brings_its_own_components(opened: list[VecEnv]) -> None:
    """Registered by the module that registers the env (tests/envs_for_tests.py)."""
    env = make_training_vec(config_of(full_id("Counting-v0"), {"late": 1.0}))
    opened.append(env)
    env.reset(0)
    assert env.step(np.zeros(4, np.int64)).reward.tolist() == [1.5] * 4  # 1 of the env, 0.5 t of the component


def test_presets_use_it_and_keep_their_scores() -> None:
    for target in ("CartPole-v1:centred", "MountainCar-v0:shaped", "LunarLander-v3:shaped"):
        shaped, plain = load(target), load(target.partition(":")[0])
        assert shaped.config.env.shaping
        assert shaped.threshold == plain.threshold


@pytest.mark.parametrize("engine", ["sync", "process", "cartpole"])
def test_state_continues_in_the_middle_of_episodes(engine: str, opened: list[VecEnv]) -> None:
    config = config_of("CartPole-v1", {"centring": 2.0}, engine)
    actions = np.random.default_rng(0).integers(0, 2, (90, 4))
    whole, part = make_training_vec(config), make_training_vec(config)
    opened += [whole, part]
    whole.reset(1)
    for action in actions[:30]:
        whole.step(action)
    part.load_state(whole.save_state())
    ended = 0
    for action in actions[30:]:
        a, b = whole.step(action), part.step(action)
        np.testing.assert_array_equal(a.reward, b.reward)
        assert a.episodes == b.episodes  # components and shaped return of episodes that began before the save, too
        ended += len(a.episodes)
    assert ended > 4


def test_an_env_that_cannot_continue_begins_its_sums_anew(opened: list[VecEnv]) -> None:
    env, again = counting(opened, "Unseeded-v0"), counting(opened, "Unseeded-v0")
    env.reset(0)
    for _ in range(3):
        env.step(np.zeros(2, np.int64))
    with pytest.warns(UserWarning, match="does not repeat itself"):
        again.load_state(env.save_state())
    for _ in range(5):  # whole episodes of the counting env: 1 + 2 + 3 + 4 + 5
        batch = again.step(np.zeros(2, np.int64))
    assert [record.components["env"] for record in batch.episodes] == [15.0, 15.0]
