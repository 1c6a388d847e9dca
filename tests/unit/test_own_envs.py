"""Envs of a user's own: mistakes are answered in one line with the fix, foreign wrappers and spaces have a way in."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from gymnast.config import EnvConfig
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs import suites
from gymnast.envs.make import make_env, make_vec


class Fine(gym.Env[Any, Any]):
    observation_space: Any = spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, False, {}


class NoOptions(Fine):
    def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


class NoSeed(Fine):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class OldReset(Fine):
    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0]


class OldStep(Fine):
    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, {}


class BrokenConstructor(Fine):
    def __init__(self) -> None:
        raise RuntimeError("no licence")


class NoSpace(gym.Env[Any, Any]):
    action_space = spaces.Discrete(2)


class Parallel:
    """As PettingZoo's are."""

    possible_agents = ("one", "two")


class Words(spaces.Space[str]):
    """A space that is nobody's, as MiniGrid's missions are."""


class Mission(Fine):
    observation_space = spaces.Dict({"eye": spaces.Box(0, 1, (3,), np.float32), "mission": Words()})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return {"eye": np.ones(3, np.float32), "mission": "go"}, {}

    def step(self, action: Any) -> Any:
        return {"eye": np.ones(3, np.float32), "mission": "go"}, 1.0, False, False, {}


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A user's module with these classes, its envs registered, and wrappers of its own."""
    module = ModuleType("mine")
    for one in (Fine, NoOptions, NoSeed, OldReset, OldStep, BrokenConstructor, NoSpace, Parallel, Mission):
        name = f"{one.__name__}-v0"
        monkeypatch.setitem(gym.registry, name, gym.envs.registration.EnvSpec(name, one))
    limited = gym.envs.registration.EnvSpec("OldLimited-v0", OldStep, max_episode_steps=9)
    monkeypatch.setitem(gym.registry, "OldLimited-v0", limited)
    module.Double = Double  # type: ignore[attr-defined]
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)
    return module


class Double(gym.ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any], by: float) -> None:
        assert by > 0, "by must be positive"
        super().__init__(env)
        self.by = by

    def observation(self, observation: Any) -> Any:
        return np.full(2, self.by, np.float32)


def steps_of(env_id: str, **config: Any) -> None:
    vec = make_vec(EnvConfig(id=env_id, **config), 2, "train")
    try:
        vec.reset(0)
        vec.step(np.zeros(2, int))
    finally:
        vec.close()


MISTAKES = {
    "NoSeed": "NoSeed.reset takes no seed.*write def reset(self, *, seed=None, options=None)",
    "OldReset": "mine:OldReset-v0: reset returned no (observation, info), as Gymnasium wants: return observation, {}",
    "OldStep": "OldStep-v0: step returned no (observation, reward, terminated, truncated, info)",
    "OldLimited": "OldLimited-v0: step returned no (observation, reward, terminated, truncated, info)",
    "BrokenConstructor": "cannot be made: RuntimeError: no licence (tests/unit/test_own_envs.py, line ",
    "NoSpace": "NoSpace has no observation_space: set self.observation_space to one of gymnasium.spaces in",
    "Parallel": "'mine:Parallel-v0' is not a gymnasium.Env.*envs of several agents (PettingZoo) are not supported",
    "Mission": "'mission' is a Words.*leave it out, --set 'env.wrappers=[{observation_keys: {drop: [mission]}}]'",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_the_fix(name: str) -> None:
    with pytest.raises((UserError, EnvFailure)) as error:
        steps_of(f"mine:{name}-v0")
    assert "\n" not in str(error.value)
    assert re.search(".*".join(map(re.escape, MISTAKES[name].split(".*"))), str(error.value)), str(error.value)


def test_a_reset_without_options_is_called_without_them() -> None:
    steps_of("mine:NoOptions-v0")
    env = make_env(EnvConfig(id="mine:NoOptions-v0", wrappers=[{"mine:Double": {"by": 3.0}}]))
    assert env.reset(seed=1, options={})[0].tolist() == [3.0, 3.0]


def test_a_module_that_cannot_be_imported_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("import gymnasium\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    expected = r"importing 'broken_module' failed: ZeroDivisionError: division by zero \(broken_module.py, line 2\)\.$"
    with pytest.raises(UserError, match=expected):
        suites.find_spec("broken_module:X-v0")


def test_entries_of_an_observation_are_kept_or_dropped() -> None:
    for kwargs in ({"drop": ["mission"]}, {"keep": ["eye"]}):
        steps_of("mine:Mission-v0", wrappers=[{"observation_keys": kwargs}])
    for kwargs, expected in (
        ({"drop": ["misson"]}, r"no 'misson'. It has eye, mission\."),
        ({"drop": ["eye", "mission"]}, "nothing is left"),
        ({}, "give keep or drop, one of them"),
    ):
        with pytest.raises(UserError, match=expected):
            steps_of("mine:Mission-v0", wrappers=[{"observation_keys": kwargs}])
    with pytest.raises(UserError, match=r"^env.wrappers: flatten: .* cannot be made numbers. Drop it by"):
        steps_of("mine:Mission-v0", wrappers=["flatten"])


def test_any_wrapper_by_module_and_class() -> None:
    cfg = EnvConfig(id="mine:Fine-v0", wrappers=[{"mine:Double": {"by": 3.0, "training_only": True}}])
    for role, by in (("train", 3.0), ("eval", None)):
        env = make_env(cfg, role)  # type: ignore[arg-type]
        assert (env.reset(seed=0)[0].tolist() == [by, by]) == (by is not None)
    steps_of("mine:Fine-v0", wrappers=[{"mine:Double": {"by": 2.0}}])


@pytest.mark.parametrize(
    "wrapper,expected",
    [
        ({"mine:Doubel": {}}, "mine has no class 'Doubel' derived from gymnasium.Wrapper"),
        ("mine:number", "mine has no class 'number' derived from gymnasium.Wrapper"),
        ("nobodys:Double", "there is no module 'nobodys'. Is it installed?"),
        ({"mine:Double": {"time": 2}}, r"missing a required argument: 'by'. It takes \(env"),
        ({"mine:Double": {"by": -1}}, r"mine:Double cannot wrap this env: AssertionError: by must be positive"),
        ("flaten", r"unknown wrapper 'flaten'. Did you mean 'flatten'\?.*Any other: module:Class\."),
    ],
)
def test_a_wrapper_that_cannot_be_is_one_line(wrapper: Any, expected: str) -> None:
    with pytest.raises(UserError, match=expected) as error:
        make_vec(EnvConfig(id="mine:Fine-v0", wrappers=[wrapper]), 1, "train")
    assert "\n" not in str(error.value)
