"""Training, evaluation and videos see the same env: the same seed and actions give the same stream in every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymnast import config as configs
from gymnast.config import EnvConfig, RunConfig
from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_vec
from gymnast.envs.suites import find_spec
from gymnast.envs.suites.base import draws
from gymnast.envs.types import VecEnv
from gymnast.play.random_actions import random_actions
from gymnast.play.stage import Stage
from gymnast.verbs.envs.show import facts_of, needs

FAMILIES = {
    "classic control": ["CartPole-v1", "CartPole-v1:no-velocity", "Acrobot-v1", "Pendulum-v1"],
    "toy text": ["Taxi-v4", "FrozenLake-v1", "Blackjack-v1"],
    "box2d": ["LunarLander-v3", "BipedalWalker-v3", "gymnast/RandomisedLunarLander-v0"],
    "atari": ["ALE/Pong-v5", "ALE/Breakout-v5"],
    "minatar": ["MinAtar/Breakout-v1", "MinAtar/Freeway-v0"],
    "mujoco": ["Hopper-v5", "Ant-v5", "Reacher-v5"],
    "bandit": ["gymnast/Bandit-v0"],
    "memory": ["gymnast/Corridor-v0"],
    "vizdoom": ["VizdoomBasic-v1"],
    "retro": ["Retro/Airstriker-Genesis"],
}
TARGETS = [target for targets in FAMILIES.values() for target in targets]
N = 4
STEPS = 120


def env_of(target: str) -> EnvConfig:
    env = configs.load(target).config.env
    if missing := needs(facts_of(env.id), env.id):
        pytest.skip(missing)
    return env


def stream(env: VecEnv, steps: int, rest: bool = True) -> list[list[Any]]:
    """What the env gave, by step: observations, and with `rest` rewards, ends, last observations and records."""
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    batch, found = env.reset(derive_seed(5, "envs")), []
    for _ in range(steps):
        batch = env.step(random_actions(env, batch.mask, rng))
        ended = batch.terminated | batch.truncated
        seen = [leaf.copy() for leaf in batch.obs.values()]
        if rest:
            seen += [batch.reward.copy(), batch.terminated.copy(), batch.truncated.copy()]
            seen += [leaf[ended] for leaf in batch.final_obs.values()]
            seen.append(np.array([(r.env, r.raw_return, r.length, r.frames, r.seed) for r in batch.episodes]))
        found.append(seen)
    env.close()
    return found


def assert_same(one: list[list[Any]], other: list[list[Any]]) -> None:
    for a, b in zip(one, other, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_every_family_with_presets_is_here() -> None:
    families = {configs.load(target).facts.family for target in TARGETS}  # type: ignore[union-attr]
    assert families == {preset.family for preset in configs.list_presets()}


@pytest.mark.parametrize("target", TARGETS)
def test_training_and_evaluation_give_the_same_stream(target: str) -> None:
    """Of some games a lost life or a point ends an episode for the learner alone: switched off here, and see the next
    test."""
    env = env_of(target)
    whole = {"ALE": {"episodic_life": False, "episodic_points": False}, "Retro": {"life_loss": "go_on"}}
    env = env.model_copy(update={"kwargs": {**env.kwargs, **whole.get(env.id.partition("/")[0], {})}})
    train, scored = (make_vec(env, N, role) for role in ("train", "eval"))  # type: ignore[arg-type]
    assert (train.engine, train.obs_space, train.action_space) == (scored.engine, scored.obs_space, scored.action_space)
    assert_same(stream(train, STEPS), stream(scored, STEPS))


@pytest.mark.parametrize("target", ["ALE/Breakout-v5", "ALE/Pong-v5"])
def test_what_ends_an_episode_for_the_learner_changes_nothing_that_is_seen(target: str) -> None:
    env = env_of(target)
    train, scored = (stream(make_vec(env, 4, role), STEPS, rest=False) for role in ("train", "eval"))  # type: ignore[arg-type]
    assert_same(train, scored)


@pytest.mark.parametrize(
    "target,wrapper",
    [
        ("CartPole-v1", {"sticky_actions": {"p": 0.5, "training_only": True}}),
        ("Hopper-v5", {"observation_noise": {"std": 0.1, "training_only": True}}),
        ("MinAtar/Breakout-v1", {"sticky_actions": {"p": 0.5, "training_only": True}}),
    ],
)
def test_what_is_for_training_only_is_all_that_differs(target: str, wrapper: dict[str, Any]) -> None:
    plain = env_of(target)
    noisy = EnvConfig.model_validate(plain.model_dump() | {"wrappers": [wrapper], "engine": "sync"})
    train, scored = (stream(make_vec(noisy, 2, role), 50) for role in ("train", "eval"))  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        assert_same(train, scored)
    assert_same(scored, stream(make_vec(plain.model_copy(update={"engine": "sync"}), 2, "train"), 50))


@pytest.mark.parametrize("target", [targets[0] for targets in FAMILIES.values()])
def test_drawing_pictures_changes_nothing(target: str) -> None:
    env = env_of(target)
    if not draws(find_spec(env.id)):
        pytest.skip("it draws none")
    engine = "auto" if env.id.startswith("Retro/") else "sync"  # a process holds one console only
    scored = stream(make_vec(env.model_copy(update={"engine": engine}), 1, "eval"), 12)
    try:
        stage = Stage(RunConfig(env=env.model_copy(update={"n_envs": 1})), 1)
    except UserError as error:
        if "found no OpenGL" in str(error):  # a machine without EGL and OSMesa
            pytest.skip(str(error))
        raise
    assert_same(stream(stage.engine, 12), scored)
    assert stage.envs[0].picture.std() > 5  # and they show something
