"""CONTRIBUTING's recipes for an algorithm, an extension and an encoder, followed to the letter like those of envs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.test_recipes_envs import SMALL, follow, python, train_and_resume

RECIPES = ("an algorithm", "an extension", "an encoder")
EXTENSION = "algo.extensions=[{count_bonus: {states: 16}}]"
ROLLOUT = [setting for setting in SMALL if "batch_size" not in setting]  # for algorithms without minibatches


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return follow(RECIPES, tmp_path_factory.mktemp("recipes"))


@pytest.mark.parametrize(
    "target,settings",
    [
        ("CartPole-v1", ["algo.name=vpg", *ROLLOUT]),
        ("FrozenLake-v1", [EXTENSION, *SMALL]),
        ("CartPole-v1", ["agent.encoder=residual", *SMALL]),
    ],
    ids=RECIPES,
)
def test_what_a_recipe_adds_trains_saves_loads_and_resumes(package: Path, target: str, settings: list[str]) -> None:
    assert train_and_resume(package, target, settings, LOAD) == ["640 2"]


LOAD = """
import gymnast
model = gymnast.load(f"runs/{second['run']}/last")
scores, _ = gymnast.evaluate_policy(model, model.config.env.id, 2, return_episode_rewards=True)
print(model.num_timesteps, len(scores))
"""
API = """
import gymnast
model = gymnast.VPG("CartPole-v1", n_steps=16, n_envs=2).learn(64)
model.save("vpg")
print(type(gymnast.VPG.load("vpg")).__name__, model.metrics["train/weight_mean"] > 0, "VPG" in dir(gymnast))
"""


def test_the_algorithm_is_a_model_of_the_api(package: Path) -> None:
    assert python(package, "-c", API).split() == ["VPG", "True", "True"]


def test_a_wrong_setting_is_answered_like_any_other(package: Path) -> None:
    ask = """
from gymnast import config
from gymnast.core.errors import UserError
for algo in ({"name": "vpg", "clip_range": 0.2}, {"name": "vpgg"}, {"extensions": [{"count_bonus": {}}]}):
    try:
        config.validate({"env": {"id": "FrozenLake-v1"}, "algo": algo})
    except UserError as error:
        print(error)
"""
    lines = python(package, "-c", ask).splitlines()
    assert len(lines) == 3
    assert "vpg has no clip_range; it belongs to ppo." in lines[0]
    assert "Did you mean 'vpg'?" in lines[1]
    assert "count_bonus: states: " in lines[2]


def test_the_catalogue_and_the_config_know_it(package: Path) -> None:
    shown = python(package, "-m", "gymnast", "config", "explain", "CartPole-v1", "algo", "--set", "algo.name=vpg")
    assert "algo.gae_lambda" in shown
    assert "algo.clip_range" not in shown.replace("dropped", "") or "dropped" in shown
