"""The contract every registered suite keeps: ids, task, one env of it, and a vector of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import tests.envs_for_tests  # noqa: F401  it registers a suite of its own: its tests are there in any order
from gymnast import config as configs
from gymnast.config import EnvConfig
from gymnast.core.errors import UserError
from gymnast.core.registry import SUITES
from gymnast.envs.make import make_env, make_vec
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites import find_spec, list_env_ids, suite_of
from gymnast.envs.suites.base import Suite

LIMIT = 8  # raw steps: two decisions of an Atari game


def suite_at(start: str) -> Suite:
    suite: Suite = SUITES.get(start)()
    if suite.missing:
        assert suite.extra, f"{start} needs a package and says no extra that installs it: {suite.missing}"
        pytest.skip(suite.missing)
    return suite


def ids_of(start: str) -> list[str]:
    return [env_id for env_id in list_env_ids() if type(suite_of(env_id)) is SUITES.get(start)]


def config_of(start: str, **values: Any) -> EnvConfig:
    """The first env of the suite that can be made here: another may need a package that is not installed."""
    home = SUITES.get(start).__module__
    for env_id in ids_of(start):
        name = env_id if home.startswith("gymnast.") else f"{home}:{env_id}"  # another process must import it first
        try:
            make_env(cfg := EnvConfig(id=name, **values)).close()
        except UserError:
            continue
        return cfg
    raise AssertionError(f"no env of {start!r} can be made")


@pytest.mark.parametrize("start", SUITES.names())
def test_its_ids_are_known_and_are_its_own(start: str) -> None:
    suite_at(start)
    ids = ids_of(start)
    assert ids
    assert all(env_id.startswith(start) and find_spec(env_id).id == env_id for env_id in ids)
    assert suite_of(f"some.module:{ids[0]}").__class__ is SUITES.get(start)


@pytest.mark.parametrize("start", SUITES.names())
def test_one_env_repeats_itself_from_a_seed_within_its_limit(start: str) -> None:
    suite_at(start)
    traces: list[list[Any]] = []
    for _ in range(2):
        env = make_env(config_of(start, max_episode_steps=LIMIT))
        obs, _ = env.reset(seed=3)
        env.action_space.seed(3)
        traces.append([obs])
        over = False
        while not over:
            assert env.observation_space.contains(obs)
            obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            traces[-1] += [obs, reward, terminated, truncated]
            over = terminated or truncated
        assert recorder_of(env).frames <= LIMIT
        env.close()
    assert len(traces[0]) > 1
    for one, other in zip(*traces, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("start", SUITES.names())
def test_a_vector_of_it_runs_on_the_engine_that_auto_takes(start: str) -> None:
    suite_at(start)
    vec = make_vec(config_of(start, max_episode_steps=LIMIT), 2, "train")
    vec.reset(0)
    vec.action_space.seed(0)
    records = []
    for _ in range(LIMIT):
        records += vec.step(np.stack([vec.action_space.sample() for _ in range(2)])).episodes
    vec.close()
    assert {record.env for record in records} == {0, 1}


@pytest.mark.parametrize("start", SUITES.names())
def test_its_task_explains_itself_and_refuses_what_it_does_not_know(start: str) -> None:
    suite = suite_at(start)
    cfg = config_of(start)
    wrong = {"env": {"id": cfg.id, "kwargs": {"no_such_setting": 1}}}
    if suite.Task is None:
        assert suite.task({"anything": 1}) == {"anything": 1}
        with pytest.raises(UserError, match=r"env.kwargs: .*no_such_setting"):
            make_env(configs.validate(wrong).env)
        return
    assert all(field.description for field in suite.Task.model_fields.values())
    with pytest.raises(UserError, match=r"env.kwargs: no_such_setting = 1: unknown key.* Known: "):
        configs.validate(wrong)
    with pytest.raises(UserError, match=r"env.kwargs: no_such_setting = 1: unknown key"):
        suite.task({"no_such_setting": 1})


def test_a_longer_beginning_goes_before_a_shorter_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Inner(Suite):
        pass

    monkeypatch.setattr(SUITES, "_entries", {**SUITES._entries, "gymnast/Inner": Inner})
    assert isinstance(suite_of("gymnast/Inner-v0"), Inner)
    assert not isinstance(suite_of("gymnast/Bandit-v0"), Inner)
    assert suite_of("Whatever-v0").__class__ is SUITES.get("")


def test_a_suite_that_is_not_installed_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent(Suite):
        module, extra = "no_such_package_at_all.envs", "absent"

    monkeypatch.setattr(SUITES, "_entries", {**SUITES._entries, "absent/": Absent})
    with pytest.raises(UserError, match=r'that it needs is not installed. Run: pip install "gymnast-rl\[absent\]"$'):
        make_env(EnvConfig(id="absent/X-v0"))
    assert "CartPole-v1" in list_env_ids()  # those of the others are still listed
    assert gym.spec("CartPole-v1") == find_spec("CartPole-v1")
