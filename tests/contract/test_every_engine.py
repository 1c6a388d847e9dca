"""The contract with every number known, shown on the env that most engines have: CartPole-v1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast.config import EnvConfig
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_vec
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from tests.contract.registered import engines_for

ENGINES = engines_for("CartPole-v1")
N = 4
Make = Callable[..., VecEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[VecEnv] = []

    def build(engine: str, n_envs: int = N, **config: Any) -> VecEnv:
        made.append(make_vec(EnvConfig(**({"id": "CartPole-v1", "engine": engine} | config)), n_envs, "train"))
        return made[-1]

    yield build
    for vec in made:
        vec.close()


def random_actions(steps: int, n: int = N, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (steps, n))


def copied(batch: StepBatch) -> list[np.ndarray]:
    parts = [batch.obs["obs"], batch.reward, batch.terminated, batch.truncated]
    return [part.copy() for part in parts]


def trace(vec: VecEnv, actions: np.ndarray) -> list[list[np.ndarray]]:
    return [copied(vec.step(action)) for action in actions]


def assert_same(a: list[list[np.ndarray]], b: list[list[np.ndarray]]) -> None:
    for one, other in zip(a, b, strict=True):
        for x, y in zip(one, other, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("engine", ENGINES)
def test_spaces_dtypes_and_shapes(make: Make, engine: str) -> None:
    vec = make(engine)
    assert (vec.engine, vec.n_envs) == (engine, N)
    assert list(vec.obs_space) == ["obs"]
    assert vec.obs_space["obs"].shape == (4,)
    assert vec.action_space == gym.spaces.Discrete(2)
    vec.reset(0)
    batch = vec.step(np.zeros(N, np.int64))
    for obs in (batch.obs["obs"], batch.final_obs["obs"]):
        assert (obs.shape, obs.dtype) == ((N, 4), np.float32)
    assert (batch.reward.dtype, batch.terminated.dtype, batch.truncated.dtype) == (np.float32, np.bool_, np.bool_)
    assert batch.reward.shape == batch.terminated.shape == batch.truncated.shape == (N,)
    assert batch.mask is None


@pytest.mark.parametrize("engine", ENGINES)
def test_same_step_no_junk_transition(make: Make, engine: str) -> None:
    vec = make(engine)
    obs = vec.reset(1).obs["obs"].copy()
    steps, ended_count = np.zeros(N, int), 0
    for action in random_actions(200):
        batch = vec.step(action)
        ended = batch.terminated | batch.truncated
        steps += 1
        # every step is a real one: it pays 1, and the cart moves by 0.02 times its velocity
        assert (batch.reward == 1.0).all()
        after = np.where(ended[:, None], batch.final_obs["obs"], batch.obs["obs"])
        np.testing.assert_allclose(after[:, 0], obs[:, 0] + 0.02 * obs[:, 1], atol=1e-6)
        # the last observation of an episode is the fallen one; what follows at once is a start, within 0.05
        assert (np.abs(batch.final_obs["obs"][batch.terminated])[:, [0, 2]] > [2.4, 0.20943]).any(axis=1).all()
        assert (np.abs(batch.obs["obs"][ended]) <= 0.05).all()
        assert sorted(record.env for record in batch.episodes) == np.flatnonzero(ended).tolist()
        for record in batch.episodes:
            assert record.length == record.frames == steps[record.env]
            assert record.raw_return == steps[record.env]
            assert record.terminated
        steps[ended] = 0
        ended_count += int(ended.sum())
        obs = batch.obs["obs"].copy()
    assert ended_count > 10  # a random CartPole episode has some 22 steps: 4 * 200 / 22 = 36 of them


@pytest.mark.parametrize("engine", ENGINES)
def test_time_limit_truncates(make: Make, engine: str) -> None:
    # in 6 steps no pole can fall, so every episode ends by the limit
    vec = make(engine, max_episode_steps=6)
    vec.reset(0)
    for t, action in enumerate(random_actions(24), start=1):
        batch = vec.step(action)
        assert not batch.terminated.any()
        assert batch.truncated.all() == batch.truncated.any() == (t % 6 == 0)
        assert len(batch.episodes) == (N if t % 6 == 0 else 0)
        assert all(record.length == 6 and not record.terminated for record in batch.episodes)
        if t % 6 == 0:
            assert (np.abs(batch.obs["obs"]) <= 0.05).all()
            assert not np.array_equal(batch.obs["obs"], batch.final_obs["obs"])


@pytest.mark.parametrize("engine", ENGINES)
def test_seeds(make: Make, engine: str) -> None:
    actions = random_actions(60)
    vec = make(engine)
    first = vec.reset(5).obs["obs"].copy()
    assert len(np.unique(first[:, 0])) == N  # no two envs start alike
    run = trace(vec, actions)
    np.testing.assert_array_equal(vec.reset(5).obs["obs"], first)  # a reset in mid-episode starts all again
    assert_same(run, trace(vec, actions))
    other = make(engine)
    np.testing.assert_array_equal(other.reset(5).obs["obs"], first)
    assert_same(run, trace(other, actions))
    assert not np.array_equal(other.reset(6).obs["obs"], first)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kwargs", [{}, {"sutton_barto_reward": True}])
def test_equal_to_the_plain_env_stepped_by_hand(make: Make, engine: str, kwargs: dict[str, Any]) -> None:
    if engine not in engines_for("CartPole-v1", kwargs=kwargs):
        pytest.skip("it does not take these kwargs")
    vec = make(engine, kwargs=kwargs, max_episode_steps=30)
    if not vec.exact_resume:
        pytest.skip("its envs draw from streams of their own, so that it cannot repeat an episode from its seed")
    actions = random_actions(120)
    envs = [gym.make("CartPole-v1", max_episode_steps=30, **kwargs) for _ in range(N)]
    episode, returns, ends = [0] * N, [0.0] * N, 0
    start = np.stack([env.reset(seed=derive_seed(9, i, 0))[0] for i, env in enumerate(envs)])
    np.testing.assert_array_equal(vec.reset(9).obs["obs"], start)
    for action in actions:
        batch = vec.step(action)
        for i, env in enumerate(envs):
            obs, reward, terminated, truncated, _ = env.step(int(action[i]))
            returns[i] += float(reward)
            assert batch.reward[i] == reward
            assert batch.terminated[i] == terminated
            assert batch.truncated[i] == (truncated and not terminated)
            if terminated or truncated:
                np.testing.assert_array_equal(batch.final_obs["obs"][i], obs)
                (record,) = [record for record in batch.episodes if record.env == i]
                assert record.seed == derive_seed(9, i, episode[i])
                assert record.raw_return == returns[i]
                episode[i], returns[i], ends = episode[i] + 1, 0.0, ends + 1
                obs, _ = env.reset(seed=derive_seed(9, i, episode[i]))
            np.testing.assert_array_equal(batch.obs["obs"][i], obs)
    assert ends > 10


def test_cartpole_goes_on_equal_beyond_its_first_block_of_starts(make: Make) -> None:
    # constant pushes fall after 8 to 10 steps: 1000 steps pass the 64 episodes that are prepared together
    records: dict[str, list[EpisodeRecord]] = {"sync": [], "cartpole": []}
    for engine, found in records.items():
        vec = make(engine, 2)
        vec.reset(2)
        for _ in range(1000):
            found.extend(vec.step(np.ones(2, np.int64)).episodes)
    assert len(records["sync"]) > 2 * 64
    assert records["sync"] == records["cartpole"]


@pytest.mark.parametrize("engine", ENGINES)
def test_saved_state_continues(make: Make, engine: str) -> None:
    actions = random_actions(140)
    vec = make(engine)
    vec.reset(11)
    trace(vec, actions[:70])
    state = {key: array.copy() for key, array in vec.save_state().items()}
    assert all(isinstance(array, np.ndarray) for array in state.values())
    now = vec.reset(11).obs["obs"].copy() if not vec.exact_resume else None
    resumed = make(engine)
    first = resumed.load_state(state)
    if not vec.exact_resume:
        # new episodes, and not those of the beginning over again
        assert (np.abs(first.obs["obs"]) <= 0.05).all()
        assert not np.array_equal(first.obs["obs"], now)
        trace(resumed, actions[:10])
        return
    assert not first.terminated.any()
    assert first.episodes == []
    records: list[list[EpisodeRecord]] = [[], []]
    for action in actions[70:]:
        for found, one in zip(records, (vec, resumed), strict=True):
            found.extend(one.step(action).episodes)
        np.testing.assert_array_equal(*(copied_obs(one) for one in (vec, resumed)))
    assert records[0] == records[1]  # returns and lengths of the interrupted episodes are complete
    assert len(records[0]) > 4


def copied_obs(vec: VecEnv) -> np.ndarray:
    return vec.save_state().get("obs/obs", vec.save_state().get("state"))  # type: ignore[return-value]


def test_envpool_steps_from_a_state_as_gymnasium_does(make: Make) -> None:
    vec, plain = make("envpool", 1), gym.make("CartPole-v1").unwrapped
    obs = vec.reset(0).obs["obs"][0].copy()
    for action in random_actions(100, 1):
        plain.reset()
        plain.state = obs.astype(np.float64)  # type: ignore[attr-defined]
        expected, reward, terminated, _, _ = plain.step(int(action[0]))
        batch = vec.step(action)
        after = batch.final_obs["obs"][0] if batch.terminated[0] else batch.obs["obs"][0]
        np.testing.assert_allclose(after, expected, atol=1e-6)  # EnvPool computes in single precision
        assert (batch.reward[0], batch.terminated[0]) == (reward, terminated)
        obs = batch.obs["obs"][0].copy()


@pytest.mark.parametrize(
    "env_id,limit", [("Acrobot-v1", 500), ("MountainCar-v0", 200), ("LunarLander-v3", 1000), ("CliffWalking-v1", None)]
)
def test_envpool_agrees_with_gymnasium_on_spaces_and_limits(make: Make, env_id: str, limit: int | None) -> None:
    pool, sync = make("envpool", 2, id=env_id), make("sync", 2, id=env_id)
    assert (pool.obs_space, pool.action_space) == (sync.obs_space, sync.action_space)
    for vec in (pool, sync):
        leaf = vec.reset(0).obs["obs"]
        assert leaf.dtype == np.dtype(vec.obs_space["obs"].dtype)
    assert gym.spec(env_id).max_episode_steps == limit
    if env_id in ("Acrobot-v1", "MountainCar-v0"):  # doing nothing never reaches the goal: -1 a step until the limit
        records: list[EpisodeRecord] = []
        for _ in range(limit or 0):
            records.extend(pool.step(np.ones(2, np.int64)).episodes)
        assert [(r.length, r.raw_return, r.terminated) for r in records] == [(limit, -float(limit or 0), False)] * 2
