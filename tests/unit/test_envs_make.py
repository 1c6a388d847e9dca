"""Making envs: which engine is chosen, what is refused and how, and the layouts of spaces.py."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from gymnast.config import EnvConfig
from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs.engines.cartpole.seeds import derive_seeds, first_uniforms
from gymnast.envs.make import choose_engine, make_env, make_vec, space_defaults
from gymnast.envs.spaces import ObsLayout
from gymnast.envs.suites import list_env_ids
from gymnast.verbs.envs.show import show_env
from tests.envs_for_tests import Counting, full_id


def config(env_id: str = "CartPole-v1", **values: Any) -> EnvConfig:
    return EnvConfig(id=env_id, **values)


@pytest.mark.parametrize(
    "values,n_envs,engine",
    [
        ({}, 8, "cartpole"),
        ({}, 2, "sync"),
        ({"kwargs": {"sutton_barto_reward": True}}, 8, "cartpole"),
        ({"wrappers": [{"frame_skip": {"n": 2}}]}, 8, "sync"),
        ({"id": "LunarLander-v3"}, 8, "envpool"),
        ({"id": "LunarLander-v3"}, 4, "sync"),
        ({"id": "LunarLander-v3", "kwargs": {"enable_wind": True}}, 8, "sync"),
        ({"id": "BipedalWalker-v3"}, 8, "envpool"),
        ({"id": "Acrobot-v1"}, 8, "envpool"),
        ({"id": "MountainCar-v0"}, 8, "sync"),
        ({"id": "Taxi-v4"}, 8, "sync"),
        ({"id": "CarRacing-v3"}, 8, "process"),
        ({"engine": "process"}, 8, "process"),
    ],
)
def test_auto_engine(values: dict[str, Any], n_envs: int, engine: str) -> None:
    chosen, reason = choose_engine(EnvConfig(**({"id": "CartPole-v1"} | values)), n_envs)
    assert chosen == engine
    assert reason


def test_auto_engine_depends_on_the_role_factory_and_pictures() -> None:
    noisy = config(wrappers=[{"observation_noise": {"std": 0.1, "training_only": True}}])
    assert choose_engine(noisy, 8)[0] == "sync"
    assert choose_engine(noisy, 8, role="eval")[0] == "cartpole"
    assert choose_engine(config(), 8, factory=Counting)[0] == "sync"
    assert choose_engine(config(), 8, render_mode="rgb_array")[0] == "sync"


@pytest.mark.parametrize(
    "values,expected",
    [
        (
            {"id": "Acrobot-v1", "engine": "cartpole"},
            r"cartpole cannot run this env: it has no Acrobot-v1, only CartPole-v0",
        ),
        ({"engine": "cartpole", "wrappers": ["flatten"]}, r"it takes no wrappers, and env.wrappers has flatten"),
        (
            {"engine": "envpool", "kwargs": {"sutton_barto_reward": True}},
            r"does not take env.kwargs sutton_barto_reward",
        ),
        (
            {"id": "Taxi-v4", "engine": "envpool"},
            r"it has no Taxi-v4, only Acrobot-v1, .*Use auto or process or sync\.",
        ),
        ({"engine": "cartpole", "action_masks": True}, r"it gives no action masks"),
    ],
)
def test_an_engine_that_cannot_is_refused_with_those_that_can(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        make_vec(EnvConfig(**({"id": "CartPole-v1"} | values)), 4, "train")


def test_missing_packages_are_answered_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "envpool" else real(name, *rest)
    )
    assert choose_engine(config("LunarLander-v3"), 8)[0] == "sync"
    with pytest.raises(UserError, match=r'Run: pip install "gymnast-rl\[envpool\]"'):
        make_vec(config("LunarLander-v3", engine="envpool"), 8, "train")


def test_missing_box2d_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("Box2D", "gymnasium.envs.box2d"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "Box2D", None)  # an import of it now fails
    with pytest.raises(UserError, match=r'LunarLander-v3.*Run: pip install "gymnast-rl\[box2d\]"$'):
        make_env(config("LunarLander-v3"))


@pytest.mark.parametrize(
    "env_id,expected",
    [
        ("CartPol-v1", r"env.id: there is no env 'CartPol-v1'. Did you mean 'CartPole-v1'"),
        ("cartpole-v1", r"Registered: CartPole-v0, CartPole-v1\."),
        ("CartPole", r"Registered: CartPole-v0, CartPole-v1\."),
        ("Taxi-v3", r"there is no env 'Taxi-v3'. Registered: Taxi-v4\."),
        ("gymnast/Bandi-v0", r"Did you mean 'gymnast/Bandit-v0'"),
        ("no_such_module:X-v0", r"there is no module 'no_such_module'. Is it"),
        # ids of other packages, whether they are installed or not
        ("MiniGrid-DoorKey-5x5-v0", r"use minigrid:MiniGrid-DoorKey-5x5-v0\.$"),
        ("FetchReach-v4", r"use gymnasium_robotics:FetchReach-v4\.$"),
        ("dm_control/cheetah-run-v0", r"use shimmy:dm_control/cheetah-run-v0\.$"),
        ("dm_control:cheetah-run", r"like shimmy:dm_control/cheetah-run-v0\.$"),
        ("procgen-coinrun-v0", r"Procgen is registered with gym, the library before Gymnasium"),
        ("procgen:procgen-coinrun-v0", r"no module 'procgen'. Procgen is registered with gym"),
        ("Pong-v5_objects", r"Use ALE/Pong-v5:objects"),
        ("simple_spread_v3", r"envs of several agents \(PettingZoo\) are not supported"),
        ("pettingzoo:x", r"no module 'pettingzoo'. One agent in a gymnasium.Env"),
        (
            "tests.envs_for_tests:test/Countin-v0",
            r"registers no env 'test/Countin-v0'. Did you mean 'test/Counting-v0'",
        ),
    ],
)
def test_unknown_ids_are_answered_with_the_nearest(env_id: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected) as error:
        make_env(config(env_id))
    assert "\n" not in str(error.value)


def test_bad_kwargs_are_named() -> None:
    with pytest.raises(UserError, match=r"env.kwargs: 'CartPole-v1' cannot be made with gravitas=3: .*gravitas"):
        make_env(config(kwargs={"gravitas": 3}))
    with pytest.raises(UserError, match=r"env.kwargs: payout is 'poisson'"):
        make_env(config("gymnast/Bandit-v0", kwargs={"payout": "poisson"}))


def test_an_env_that_ends_python_is_a_mistake_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UserError, match=r"cannot be made with trouble='quit_making': SystemExit: 0 \(.*, line \d+\)\.$"
    ):
        make_env(config(full_id("Troubled-v0"), kwargs={"trouble": "quit_making"}))
    (tmp_path / "leaves_at_once.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        UserError, match=r"importing 'leaves_at_once' failed: SystemExit: 0 \(.*leaves_at_once.py, line 2"
    ):
        make_env(config("leaves_at_once:Any-v0"))


def test_an_env_that_cannot_be_closed_is_done_with(recwarn: pytest.WarningsRecorder) -> None:
    cfg = config(full_id("Troubled-v0"), kwargs={"trouble": "close"})
    assert space_defaults(cfg)["algo.ent_coef"] == 0.01
    vec = make_vec(cfg, 2, "train")
    vec.close()
    said = [str(warning.message) for warning in recwarn]
    assert said
    assert all("Troubled-v0: close() failed: OSError: the door is stuck" in one for one in said)


def test_bad_wrapper_parameters_are_refused_by_both_makers() -> None:
    cfg = config(wrappers=[{"frame_stack": {"n": 2}}]).model_copy(
        update={
            "wrappers": [SimpleNamespace(name="frame_stack", kwargs={"n": 0}), SimpleNamespace(name="x", kwargs={})]
        }
    )
    for attempt in (lambda: make_env(cfg), lambda: make_vec(cfg, 2, "train")):
        with pytest.raises(UserError, match=r"env.wrappers: wrapper 'frame_stack': n is 0.*\nenv.wrappers: unknown"):
            attempt()


def test_masks_and_wrappers_that_change_actions_exclude_each_other() -> None:
    cfg = config("Taxi-v4", action_masks=True, wrappers=[{"sticky_actions": {"p": 0.1}}])
    with pytest.raises(UserError, match="sticky_actions may execute another action than the chosen one"):
        make_vec(cfg, 2, "train")


def test_ids_of_a_module_in_the_working_directory_work_outside_of_tests() -> None:
    code = (
        "import sys; sys.path = [p for p in sys.path if p]\n"
        "from gymnast.config import EnvConfig\nfrom gymnast.envs.make import make_env\n"
        f"print(make_env(EnvConfig(id={full_id('Counting-v0')!r})).reset(seed=0)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0.]"


def test_list_has_gymnasiums_and_our_own() -> None:
    assert {"CartPole-v1", "FrozenLake-v1", "gymnast/Bandit-v0", "gymnast/BernoulliBandit-v0"} <= set(list_env_ids())


def lucky_factory() -> gym.Env[Any, Any]:
    return Counting(length=3)


def test_factories() -> None:
    vec = make_vec(config("mine"), 2, "train", factory=lambda: Counting(length=3))
    assert vec.engine == "sync"
    vec.reset(0)
    vec.step(np.zeros(2))
    assert vec.step(np.zeros(2)).obs["obs"].tolist() == [[2], [2]]
    with pytest.raises(UserError, match="process cannot send this env to a worker"):
        make_vec(config("mine", engine="process"), 2, "train", factory=lambda: Counting(length=3))
    vec = make_vec(config("mine", engine="process"), 2, "train", factory=Counting)
    assert vec.reset(0).obs["obs"].tolist() == [[0], [0]]
    vec.close()
    with pytest.raises(UserError, match="the env factory returned dict"):
        make_vec(config("mine"), 2, "train", factory=dict)  # type: ignore[arg-type]


def test_pictures_come_from_the_sync_engine() -> None:
    vec = make_vec(config(full_id("Counting-v0")), 1, "play", render_mode="rgb_array")
    vec.reset(0)
    vec.step(np.zeros(1))
    assert vec.envs[0].render().max() == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_an_env_that_draws_nothing_says_so(mode: str, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(UserError, match="gymnast/Bandit-v0 draws no pictures: it can be trained and scored"):
        make_env(config("gymnast/Bandit-v0"), render_mode=mode)
    assert not recwarn.list


def test_bandits() -> None:
    env = make_env(config("gymnast/Bandit-v0", kwargs={"means": [0.5, 2.0], "std": 0.1, "horizon": 3}))
    assert env.render_mode is None
    env.reset(seed=0)
    results = [env.step(1) for _ in range(3)]
    assert [result[2] for result in results] == [False, False, True]
    assert np.mean([result[1] for result in results]) == pytest.approx(2.0, abs=0.3)
    env = make_env(config("gymnast/BernoulliBandit-v0"))
    rewards = []
    for seed in range(500):
        env.reset(seed=seed)
        rewards.append(env.step(6)[1])
    assert set(rewards) == {0.0, 1.0}
    assert np.mean(rewards) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1, 2**40 + 7, 2**70 + 3])
def test_seed_batches_are_numpys_own(seed: int) -> None:
    env, episode = np.arange(40), np.arange(40) * 7919
    seeds = derive_seeds(seed, env, episode)
    assert seeds.tolist() == [derive_seed(seed, int(i), int(k)) for i, k in zip(env, episode, strict=True)]
    expected = [np.random.Generator(np.random.PCG64(int(one))).random(4) for one in seeds]
    np.testing.assert_array_equal(first_uniforms(seeds, 4), expected)


def test_layout_takes_one_observation_or_many() -> None:
    layout = ObsLayout(spaces.Box(0, 255, (8, 6, 3), np.uint8))
    image = np.random.default_rng(0).integers(0, 256, (8, 6, 3), dtype=np.uint8)
    one, single = layout.to_batch(image)
    assert single
    np.testing.assert_array_equal(one["obs"], image.transpose(2, 0, 1)[None])
    many, single = layout.to_batch(np.stack([image, image]))
    assert not single
    assert many["obs"].shape == (2, 3, 8, 6)
    with pytest.raises(UserError, match=r"observation 'obs' has shape \(4,\); the env's is \(3,\)"):
        ObsLayout(spaces.Box(-1, 1, (3,))).to_batch(np.zeros(4))


def test_layout_of_channels_first_images_and_odd_dtypes() -> None:
    assert ObsLayout(spaces.Box(0, 255, (4, 84, 84), np.uint8)).obs_space["obs"].shape == (4, 84, 84)
    for given, kept in [("float64", "float32"), ("bool", "int8"), ("uint16", "int32"), ("int16", "int16")]:
        box = spaces.Box(0, 1, (2,), np.dtype(given).type)
        assert ObsLayout(box).obs_space["obs"].dtype == np.dtype(kept)
    with pytest.raises(UserError, match="'word' is a Text"):
        ObsLayout(spaces.Dict({"word": spaces.Text(5)}))


class WithMission(gym.Env[Any, Any]):
    """A Dict with text in it, as MiniGrid's, and a space that says by a function what is in it."""

    observation_space = spaces.Dict({"mission": spaces.Text(9), "at": spaces.Box(0, 1, (2,), np.float32)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return {"mission": "go", "at": np.zeros(2, np.float32)}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return {"mission": "go", "at": np.ones(2, np.float32)}, 1.0, True, False, {}


def test_text_in_an_observation_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="the observation's 'mission' is text, which is not learned from: left out"):
        env = make_vec(config("Mission", n_envs=2, engine="sync"), 2, "train", WithMission)
    assert list(env.obs_space) == ["at"]
    assert env.reset(0).obs["at"].tolist() == [[0.0, 0.0]] * 2
    assert env.step(np.zeros(2, np.int64)).final_obs["at"].tolist() == [[1.0, 1.0]] * 2


def test_an_env_is_shown_without_places_in_memory() -> None:
    gym.register("Shown-v0", entry_point=lambda mission: WithMission(), kwargs={"mission": lambda: "go"})
    try:
        shown = show_env("Shown-v0").to_json()
    finally:
        del gym.registry["Shown-v0"]
    assert "0x" not in str(shown)
    assert shown["kwargs"] == {"mission": "test_an_env_is_shown_without_places_in_memory.<locals>.<lambda>"}


def test_a_variant_is_shown_as_it_is() -> None:
    """Its actions and its threshold, not those that the facts have of the env."""
    env, variant = (show_env(f"ALE/Pong-v5{more}").to_json() for more in ("", ":objects-deterministic"))
    assert (env["solved"]["threshold"], variant["solved"]["threshold"]) == (18, 20)
    assert (len(env["actions"]), variant["actions"]) == (6, ["FIRE", "RIGHT", "LEFT"])
    assert "grey" not in variant["description"]
    assert variant["observations"][0]["name"] == "ball x"
