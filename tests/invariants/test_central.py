"""`train.layout: central`: where envs are stepped changes no number, and an actor that dies ends nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gymnast.config import RunConfig
from gymnast.envs.actors.pool import ActorVec
from gymnast.training.loop import train
from gymnast.training.state import TrainState
from tests.envs_for_tests import full_id
from tests.invariants.conftest import small_config
from tests.invariants.test_resume import equal, resumes_exactly

BUDGET = {"total_timesteps": 1024, "seed": 1}
EXACT = {"layout": "central", "central": {"n_actors": 3}}  # of 4 envs: actors with one env and with two
MEMORY = {"memory": "lstm", "memory_size": 12, "sequence_length": 8, "hidden": [16]}
NORMALISED = {"normalize_obs": True, "normalize_reward": True, "hidden": [16]}
CASES: dict[str, dict[str, Any]] = {
    "compiled": {"agent": NORMALISED},
    "memory": {"agent": MEMORY | NORMALISED},
    "masks": {"env": {"id": full_id("Masked-v0"), "action_masks": True}},
    "masks and memory": {"env": {"id": full_id("Varied-v0"), "action_masks": True}, "agent": MEMORY},
    "shaping": {"env": {"shaping": {"centring": 3.0}}},
}


def case(name: str, central: dict[str, Any] | None = None, **train: Any) -> RunConfig:
    sections = {section: dict(values) for section, values in CASES[name].items()}
    given = BUDGET | (EXACT if central is None else {"layout": "central", "central": central}) | train
    return small_config(**sections, train=given, eval={"every": 512, "episodes": 2})


def kill(session: TrainState, actor: int) -> None:
    os.kill(actors_of(session)._all.processes[actor].pid, signal.SIGKILL)  # type: ignore[attr-defined]


def actors_of(session: TrainState) -> ActorVec:
    return session.env.actors  # type: ignore[attr-defined, no-any-return]


def learned(session: TrainState, each: Callable[[int], Any] = lambda row: None) -> list[dict[str, float]]:
    """The rows of a training; `each` is called after every one, with how many there are."""
    rows: list[dict[str, float]] = []

    def observe(row: dict[str, float]) -> None:
        rows.append(row)
        each(len(rows))

    train(session, observer=observe)
    return rows


def same_weights(a: TrainState, b: TrainState) -> None:
    for name, tensor in a.agent.state_dict().items():
        assert torch.equal(tensor, b.agent.state_dict()[name]), name


@pytest.mark.parametrize("name", CASES)
def test_exact_is_lockstep_number_for_number(name: str, make_session: Any) -> None:
    lockstep, central = make_session(case(name, layout="lockstep", central={})), make_session(case(name))
    equal(learned(lockstep), learned(central))
    same_weights(lockstep, central)


def test_exact_stays_exact_when_actors_are_killed(make_session: Any) -> None:
    """The actor that takes the place of a dead one repeats its episodes up to the step that is missing."""
    quiet, disturbed = make_session(case("memory")), make_session(case("memory"))
    expected = learned(quiet)
    with pytest.warns(UserWarning, match="the actor of envs 1 to 1 was killed by signal 9 .SIGKILL.; another one"):
        rows = learned(disturbed, each=lambda row: kill(disturbed, row // 2) if row in (2, 5) else None)
    equal(expected, rows)
    same_weights(quiet, disturbed)
    assert actors_of(disturbed).replaced == 2


def test_exact_resumes_exactly(tmp_path: Path, make_session: Any) -> None:
    resumes_exactly(case("masks and memory"), tmp_path, make_session)
