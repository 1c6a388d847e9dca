"""The contract that holds for any engine and env, shown on an env that each registered engine can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gymnast.config import EnvConfig
from gymnast.core.registry import ENGINES
from gymnast.envs.engines.base import Engine
from gymnast.envs.make import make_vec
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from tests.contract.registered import env_for

N = 3
LIMIT = 60  # raw steps of an episode, so that every env ends one soon; 15 decisions of an Atari game
STEPS = 80
Open = Callable[..., VecEnv]


@pytest.fixture
def open_vec() -> Iterator[Open]:
    made: list[VecEnv] = []

    def build(engine: str, role: Any = "train") -> VecEnv:
        made.append(make_vec(EnvConfig(id=env_for(engine), engine=engine, max_episode_steps=LIMIT), N, role))
        return made[-1]

    yield build
    for vec in made:
        vec.close()


def actions_for(vec: VecEnv) -> list[np.ndarray]:
    vec.action_space.seed(0)
    return [np.stack([vec.action_space.sample() for _ in range(N)]) for _ in range(STEPS)]


def copied(batch: StepBatch) -> list[np.ndarray]:
    parts = [*batch.obs.values(), batch.reward, batch.terminated, batch.truncated]
    return [part.copy() for part in parts]


def trace(vec: VecEnv, seed: int, actions: list[np.ndarray]) -> list[list[np.ndarray]]:
    return [copied(vec.reset(seed)), *(copied(vec.step(action)) for action in actions)]


def assert_same(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("engine", ENGINES.names())
def test_it_is_an_engine_under_its_own_name(open_vec: Open, engine: str) -> None:
    assert issubclass(ENGINES.get(engine), Engine)
    assert open_vec(engine).engine == engine


@pytest.mark.parametrize("role", ["train", "eval"])
@pytest.mark.parametrize("engine", ENGINES.names())
def test_every_end_is_one_end_and_every_record_adds_up(open_vec: Open, engine: str, role: str) -> None:
    vec = open_vec(engine, role)
    vec.reset(3)
    lengths, returns, records = np.zeros(N, int), np.zeros(N), 0
    for action in actions_for(vec):
        batch = vec.step(action)
        lengths += 1
        returns += batch.reward
        assert (batch.reward.dtype, batch.terminated.dtype, batch.truncated.dtype) == (np.float32, np.bool_, np.bool_)
        for name, space in vec.obs_space.items():
            for part in (batch.obs[name], batch.final_obs[name]):
                assert (part.shape, part.dtype) == ((N, *(space.shape or ())), space.dtype)
        assert not (batch.terminated & batch.truncated).any()
        ended = np.flatnonzero(batch.terminated | batch.truncated).tolist()
        recorded = {record.env: record for record in batch.episodes}
        assert len(recorded) == len(batch.episodes)
        assert recorded.keys() <= set(ended)
        for row in ended:
            if row not in recorded:  # a life was lost: the game and its score go on, what is seen stays
                assert role == "train"
                assert batch.terminated[row]
                assert all(np.array_equal(batch.obs[name][row], batch.final_obs[name][row]) for name in batch.obs)
                continue
            record = recorded[row]
            assert record.terminated == batch.terminated[row]
            assert record.length == lengths[row]
            assert record.length <= record.frames <= LIMIT
            assert record.raw_return == pytest.approx(returns[row], rel=1e-5)
            lengths[row], returns[row], records = 0, 0.0, records + 1
    assert records > N


@pytest.mark.parametrize("engine", ENGINES.names())
def test_the_same_seed_gives_the_same_bits(open_vec: Open, engine: str) -> None:
    vec, other = open_vec(engine), open_vec(engine)
    actions = actions_for(vec)
    first = trace(vec, 5, actions)
    for again in (vec, other):  # a reset in the middle of an episode, and another vector
        for expected, found in zip(first, trace(again, 5, actions), strict=True):
            assert_same(expected, found)


@pytest.mark.parametrize("engine", ENGINES.names())
def test_a_saved_state_goes_on(open_vec: Open, engine: str) -> None:
    vec, resumed = open_vec(engine), open_vec(engine)
    actions = actions_for(vec)
    vec.reset(11)
    for action in actions[:40]:
        last = copied(vec.step(action))
    state = {key: array.copy() for key, array in vec.save_state().items()}
    assert all(isinstance(array, np.ndarray) for array in state.values())
    batch = resumed.load_state(state)
    assert not batch.terminated.any()
    assert batch.episodes == []
    if not vec.exact_resume:
        resumed.step(actions[40])
        return
    assert_same(last[: len(batch.obs)], copied(batch)[: len(batch.obs)])
    found: list[list[EpisodeRecord]] = [[], []]
    for action in actions[40:]:
        batches = [one.step(action) for one in (vec, resumed)]
        assert_same(*map(copied, batches))
        for records, batch in zip(found, batches, strict=True):
            records.extend(batch.episodes)
    assert found[0] == found[1]
    assert found[0]
