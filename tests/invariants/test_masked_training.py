"""Real trainings under env.action_masks and env.forbid, on an env that raises at whatever they should prevent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gymnast.config import RunConfig
from gymnast.core.errors import EnvFailure
from gymnast.judge.evaluate import evaluate
from gymnast.play.episode import play_episodes, rollout_steps
from gymnast.play.stage import Stage
from gymnast.play.step_table import step_table
from gymnast.training.loop import train
from tests.envs_for_tests import full_id
from tests.invariants.conftest import small_config
from tests.invariants.test_resume import resumes_exactly

MASKS = {"action_masks": True, "forbid": [["left", "right"]]}
MEMORY = {"memory": "gru", "memory_size": 16, "sequence_length": 8}
LABELS = ["no left/right", "right", "left", "no fire", "fire"]


def pad_config(name: str = "ppo", memory: bool = False, **sections: Any) -> RunConfig:
    """Who needs no memory is shown the way at every step."""
    env = MASKS | {"kwargs": {"hint": not memory}, "n_envs": 8, **sections.pop("env", {})}
    agent = {"hidden": [16], **(MEMORY if memory else {})}
    return small_config(name, full_id("Pad-v0"), env=env, agent=agent, **sections)


@pytest.mark.parametrize("memory", [False, True])
def test_it_is_learned_and_seen_by_everybody(memory: bool, make_session: Any) -> None:
    """6 is the most: 1 for each of 6 steps. Half of the buttons of a random agent are right or nothing: 2."""
    algo = {"learning_rate": 3e-3, "n_epochs": 4, "ent_coef": 0.01}
    budget = {"total_timesteps": 20_480 if memory else 10_240}
    session = make_session(pad_config(memory=memory, algo=algo, train=budget))
    assert session.labels.actions == LABELS
    assert session.alerts.known.uniform_entropy is None
    train(session)
    for deterministic, least in ((True, 5.9), (False, 4.5)):
        assert evaluate(session.net, session.judge.env, 20, 5, deterministic).mean >= least
    rows = step_table(rollout_steps(session.agent, session.rollout), session.labels)
    assert {f"p {label}" for label in LABELS} <= rows[0].keys()
    stage = Stage(session.config, 2)
    steps = list(play_episodes(session.net, stage, 7, deterministic=False))
    stage.engine.close()
    for step in steps:
        if step.action is None:
            continue
        assert step.mask is not None
        assert step.mask.tolist() == [True, True, True, True, step.t % 2 == 0]
        assert (step.choices["probability"][4] == 0) == (step.t % 2 == 1)
        assert session.labels.text(step.action) in {f"{way}, {fire}" for way in LABELS[:3] for fire in LABELS[3:]}


@pytest.mark.parametrize("algo", ["a2c", "reinforce"])
def test_other_algorithms(algo: str, make_session: Any) -> None:
    train(make_session(pad_config(algo, train={"total_timesteps": 4096})))


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("engine", ["sync", "process"])
def test_resumed_equals_uninterrupted(engine: str, memory: bool, tmp_path: Path, make_session: Any) -> None:
    config = pad_config(memory=memory, env={"engine": engine}, train={"total_timesteps": 2048}, eval={"policy": "both"})
    resumes_exactly(config, tmp_path, make_session)


def test_without_them_the_env_raises(make_session: Any) -> None:
    """What the tests above would see."""
    for missing in ({"action_masks": False}, {"forbid": []}):
        with pytest.raises(EnvFailure, match="AssertionError"):
            train(make_session(pad_config(env=missing)))
