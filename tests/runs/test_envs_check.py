"""`gymnast envs check`: what works passes, what is broken is named, and the exit code says so."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from gymnast import config as configs
from gymnast.cli import app
from gymnast.core.errors import UserError
from gymnast.verbs.envs.check import check
from gymnast.verbs.envs.check_all import check_envs
from gymnast.verbs.envs.health import check_health
from gymnast.verbs.progress import Progress
from tests.envs_for_tests import full_id


def test_some_presets_of_each_kind_pass() -> None:
    names = ["CartPole-v1", "CliffWalking-v1", "Taxi-v4", "gymnast/Bandit-v0", "LunarLander-v3", "MinAtar/Breakout-v1"]
    found = check(names).data
    assert found["problems"] == []
    envs = {one["env"]: one for one in found["envs"]}
    assert list(envs) == names
    assert all(one["repeats"] for one in envs.values())
    assert [name for name, one in envs.items() if not one["varies"]] == ["CliffWalking-v1"]  # one start, no chance
    assert [name for name, one in envs.items() if one["picture"] is None] == ["gymnast/Bandit-v0"]
    assert envs["CartPole-v1"]["picture"] == (400, 600)


def test_variants_that_share_an_env_are_checked_once() -> None:
    class Counted(Progress):
        planned, done_ = 0.0, 0.0

        def plan(self, amount: float) -> None:
            self.planned += amount

        def done(self, amount: float = 1.0) -> None:
            self.done_ += amount

    progress = Counted()
    found = check(["CartPole-v1"], everything=True, steps=5, progress=progress).data["envs"]
    assert sum(len(one["variants"]) for one in found) == len(
        next(preset.variants for preset in configs.list_presets() if preset.id == "CartPole-v1")
    )
    assert found[0]["variants"][:2] == ["ppo", "a2c"]
    assert len(found) == 4 == progress.planned == progress.done_  # plain, shaped, with Acrobot, and without velocities


def health_of(name: str, **env: Any) -> Any:
    config = configs.load("CartPole-v1").config
    changed = config.env.model_copy(update={"id": full_id(name), **env})
    return check_health(config.model_copy(update={"env": changed}), 20)


def test_what_is_broken_is_named() -> None:
    assert health_of("Counting-v0").problems == ["its picture of 4 x 4 pixels shows nothing: all have one colour"]
    (problem, *_) = health_of("Unseeded-v0").problems
    assert problem.startswith("train: the same seed and actions gave something else from step ")
    crash = health_of("Troubled-v0", kwargs={"trouble": "crash", "at": 2}).problems
    assert "crashed in step" in crash[0]
    assert "\n" not in "".join(crash)


def test_a_black_picture_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    monkeypatch.setattr(CartPoleEnv, "render", lambda self: np.zeros((40, 60, 3), np.uint8))
    health = check_health(configs.load("CartPole-v1").config, 5)
    assert health.problems == ["its picture of 40 x 60 pixels shows nothing: all have one colour"]


def test_a_missing_family_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "mujoco" else real(name, *rest)
    )
    found = check_envs(["Hopper-v5", "CliffWalking-v1", "Ant-v5"], (), 5, every_variant=False)
    assert found.exit_code == 0
    assert [one["env"] for one in found.data["envs"]] == ["CliffWalking-v1"]
    assert found.data["missing"] == [
        {"command": 'pip install "gymnast-rl[mujoco]"', "targets": ["Hopper-v5", "Ant-v5"]}
    ]


def test_the_command() -> None:
    runner = CliRunner()
    good = runner.invoke(app, ["envs", "check", "CliffWalking-v1", "Blackjack-v1", "--steps", "20"])
    assert good.exit_code == 0, good.output
    assert "2 checked, 0 failed" in good.output
    bad = runner.invoke(app, ["envs", "check", "CliffWalking-v1", full_id("Unseeded-v0"), "--steps", "20", "--json"])
    assert bad.exit_code == 1
    data = json.loads(bad.stdout.splitlines()[-1])
    assert [bool(one["problems"]) for one in data["envs"]] == [False, True]
    one = runner.invoke(app, ["envs", "check", full_id("Unseeded-v0"), "--steps", "20"])
    assert one.exit_code == 1
    assert "not repeated" in one.output
    assert "episodes in progress start again" in one.output
    with pytest.raises(UserError, match="name an ENV, or give --all"):
        runner.invoke(app, ["envs", "check"], catch_exceptions=False, standalone_mode=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_variant_of_every_preset_works() -> None:
    found = check([], everything=True).data
    assert found["problems"] == []
    variants = {f"{preset.id}:{name}" for preset in configs.list_presets() for name in preset.variants}
    missing = {target for lacking in found["missing"] for target in lacking["targets"]}
    assert sum(len(one["variants"]) for one in found["envs"]) + len(missing) == len(variants)
