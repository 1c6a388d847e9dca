"""Which engine `auto` takes for every preset and any number of envs, and the reason it gives."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gymnast import config as configs
from gymnast.envs.engines.envpool import MUJOCO
from gymnast.envs.make import choose_engine, missed_engine

pytest.importorskip("ale_py")
pytest.importorskip("envpool")

MANY = 64
# By env id: from how many envs on which engine is taken. Every other env, and one that is wrapped, is stepped by sync.
TABLE = {
    "CartPole-v1": {1: "sync", 4: "cartpole"},
    "Acrobot-v1": {1: "sync", 8: "envpool"},
    "LunarLander-v3": {1: "sync", 8: "envpool"},
    "LunarLanderContinuous-v3": {1: "sync", 8: "envpool"},
    "BipedalWalker-v3": {1: "sync", 8: "envpool"},
    **{env_id: {1: "sync", 8: "envpool"} for env_id in MUJOCO},
    "ALE/Breakout-v5": {1: "ale"},
    "ALE/Pong-v5": {1: "ale"},
}
SLOW = {1: "sync", 2: "process"}  # Doom, and an Atari game that is seen as RAM or objects
ALONE = {1: "alone"}  # consoles
REASONS = {
    "sync": "runs every env, and is fastest for one that is cheap to step",
    "cartpole": "a compiled loop of our own steps {id}, and nothing wraps it",
    "envpool": "EnvPool steps {id} faster than Python does, and nothing wraps it",
    "process": "{id} is slow to step, and each core steps some of them",
    "alone": "a process may hold one {id} only",
    "ale": "ALE's vector env steps Atari games in C++, and nothing wraps it",
}
TARGETS = [f"{preset.id}:{variant}" for preset in configs.list_presets() for variant in preset.variants]


@pytest.mark.parametrize("target", TARGETS)
def test_auto_takes_what_it_always_took(target: str) -> None:
    env = configs.load(target).config.env
    by_number = {1: "sync"} if env.wrappers else TABLE.get(env.id, {1: "sync"})
    by_number = SLOW if env.kwargs.get("observation") in ("ram", "objects") or "Vizdoom" in env.id else by_number
    by_number = ALONE if env.id.startswith("Retro/") else by_number
    edges = [*by_number.items(), (MANY + 1, "")]
    for (first, engine), (beyond, _) in pairwise(edges):
        for n_envs in range(first, beyond):
            for role in ("train", "eval", "play"):
                reason = REASONS[engine].format(id=env.id)
                name = "process" if engine == "alone" else engine
                assert choose_engine(env, n_envs, role=role) == (name, reason)  # type: ignore[arg-type]
    assert choose_engine(env, MANY, render_mode="rgb_array") == ("sync", REASONS["sync"])


def test_a_faster_engine_that_a_setting_hinders_is_named() -> None:
    changed = configs.EnvConfig(id="LunarLander-v3", kwargs={"gravity": -5})
    assert choose_engine(changed, 8)[0] == "sync"
    assert missed_engine(changed, 8) == (
        "envpool would be faster, but it does not take env.kwargs gravity. "
        "On several cores env.engine=process may be faster too."
    )
    assert missed_engine(changed.model_copy(update={"engine": "sync"}), 8) is None  # it was named
    assert missed_engine(changed, 1) is None
    assert missed_engine(configs.EnvConfig(id="LunarLander-v3"), 8) is None
    assert missed_engine(configs.EnvConfig(id="Taxi-v4"), 8) is None


def test_every_id_of_the_table_is_a_preset() -> None:
    assert TABLE.keys() <= {preset.id for preset in configs.list_presets()}
