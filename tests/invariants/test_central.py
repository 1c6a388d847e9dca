"""`train.layout: central`: where envs are stepped changes no number, and an actor that dies ends nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gymnast.config import RunConfig
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.actors.pool import ActorVec
from gymnast.envs.make import make_training_vec
from gymnast.runs import checkpoint
from gymnast.training.loop import train
from gymnast.training.state import TrainState, restore
from tests.envs_for_tests import full_id
from tests.invariants.conftest import collect, small_config
from tests.invariants.test_resume import equal, resumes_exactly

ASYNC = {"mode": "async", "n_actors": 2}
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


def test_exact_cuts_an_episode_that_cannot_be_repeated() -> None:
    """Observations that no seed repeats: the episode ends where the agent last saw it, and its env is in another."""
    config = small_config(
        env={"id": full_id("Unseeded-v0"), "n_envs": 2}, train=BUDGET | EXACT | {"central": {"n_actors": 2}}
    )
    vec = make_training_vec(config)
    assert isinstance(vec, ActorVec)
    try:
        vec.reset(1)
        seen = {key: array.copy() for key, array in vec.step(np.zeros(2, np.int64)).obs.items()}
        os.kill(vec._all.processes[0].pid, signal.SIGKILL)  # type: ignore[attr-defined]
        now = vec.step(np.zeros(2, np.int64))
        assert now.truncated.tolist() == [True, False]
        assert now.final_obs["obs"][0] == seen["obs"][0]
        assert now.reward[0] == 0.0
    finally:
        vec.close()


@pytest.mark.parametrize(("name", "max_lag"), [("compiled", 0), ("masks and memory", 0), ("memory", 1)])
def test_async_measures_how_old_its_steps_are(name: str, max_lag: int, make_session: Any) -> None:
    """At lag 0 the learner finds every probability as the actor's policy had it: states, masks and starts belong to
    their steps, also where an actor was killed. With a lag the ratios are those of a policy that has moved."""
    session = make_session(case(name, ASYNC | {"max_lag": max_lag}))
    with pytest.warns(UserWarning, match="another one takes its place"):
        rows = learned(session, lambda row: kill(session, 0) if row == 2 else None)
    assert rows[-1]["central/actors_replaced"] == 1.0
    assert max(row["central/policy_lag_max"] for row in rows) == max_lag
    assert all(0.0 <= row["central/policy_lag_mean"] <= row["central/policy_lag_max"] for row in rows)
    off = [abs(row["central/ratio_max"] - 1.0) for row in rows]
    if max_lag == 0:
        assert max(off) < 1e-4
        assert all(abs(row["train/ratio_first"] - 1.0) < 1e-4 for row in rows)
    else:
        assert max(off) > 1e-3
    phases = {f"central/share/{phase}" for phase in ("env", "receive", "act", "copy", "send")}
    assert phases | {"central/env_ms", "central/wait_ms", "central/batch", "time/share/wait"} <= rows[-1].keys()


def test_async_with_vtrace_starts_at_ratio_1(make_session: Any) -> None:
    """Steps of an older policy are weighed; what PPO then compares with is the learner as it is."""
    session = make_session(case("memory", ASYNC | {"correction": "vtrace"}))
    rows = learned(session)
    assert max(row["central/policy_lag_max"] for row in rows) == 1.0
    assert all(abs(row["train/ratio_first"] - 1.0) < 1e-4 for row in rows)
    weights = session.rollout["importance"]
    assert 0.0 < float(weights.min()) < float(weights.max()) <= 1.0
    advantage = session.rollout["advantage"]  # less a weighed baseline: normalisation subtracts no constant from it
    assert abs(float(advantage.mean())) < 1e-4 * float(advantage.std())


def test_async_drops_the_step_that_was_lost_with_its_actor(make_session: Any) -> None:
    """The env kills its process in the third step of every episode: with n_steps 4 every rollout shows 0, 1, 0, 1. The
    first pair ends as cut, at the observation 2 that was seen before the lost step. The second one ends with the
    rollout, at the same observation, and the next rollout begins a new episode."""
    dying = {"id": full_id("Dying-v0"), "n_envs": 2}
    budget = {"total_timesteps": 1024, "layout": "central", "central": ASYNC | {"max_lag": 0}}
    session = make_session(small_config(env=dying, algo={"n_steps": 4, "batch_size": 8}, train=budget))
    two = session.net.values({"obs": np.full((2, 1), 2.0, np.float32)}, {}, np.zeros(2, np.bool_))["value"]
    for _ in range(2):
        collect(session)
        rollout = session.rollout
        for env in range(2):
            assert rollout["obs.obs"][:, env, 0].tolist() == [0.0, 1.0, 0.0, 1.0]
            assert rollout["reward"][:, env].tolist() == [1.0, 2.0, 1.0, 2.0]
            assert rollout["starts"][:, env].tolist() == [True, False, True, False]
            assert rollout["truncated"][:, env].tolist() == [False, True, False, False]
            assert not rollout["terminated"].any()
        assert torch.allclose(rollout["final_value"][1], two)
        assert torch.allclose(rollout.last_values["value"], two)
    assert session.collector.measured()["central/actors_replaced"] >= 6  # 2 actors: in each rollout, and between


def test_async_says_that_resuming_is_not_exact(tmp_path: Path, make_session: Any) -> None:
    config = case("memory", ASYNC)
    train(make_session(config), checkpoints=tmp_path)
    saved = checkpoint.load(tmp_path / "last.safetensors")
    resumed = make_session(config)
    assert restore(resumed, saved.tensors, saved.state) == [
        "episodes in progress start again: the actors engine cannot continue them"
    ]
    collect(resumed)


def test_an_actor_that_always_dies_ends_the_run(make_session: Any) -> None:
    dying = {"id": full_id("Troubled-v0"), "kwargs": {"trouble": "exit", "at": 1}, "n_envs": 2}
    for central in ({"n_actors": 1}, {"n_actors": 1, "mode": "async"}):
        session = make_session(small_config(env=dying, train={"layout": "central", "central": central}))
        with pytest.raises(EnvFailure, match="envs 0 to 1 ended with exit code 7, for the 4th time without a step"):
            collect(session)


def test_an_error_of_an_env_ends_the_run(make_session: Any) -> None:
    for central in ({}, {"mode": "async"}):
        config = small_config(
            env={"id": full_id("Crashing-v0"), "n_envs": 2}, train={"layout": "central", "central": central}
        )
        session = make_session(config)
        with pytest.raises(EnvFailure, match="the gearbox is on fire"):
            collect(session)


REFUSED = [
    ({"central": {"n_actors": 2}}, {}, "train.central.n_actors: only train.layout=central has actors"),
    ({"central": {"n_actors": 5}}, {}, "train.central.n_actors: 5 actors have nothing to do with env.n_envs=4"),
    ({"central": {"max_lag": 2}}, {}, "train.central.max_lag: exact actors are never behind"),
    ({"central": {"where": "mars"}}, {}, "train.central.where"),
    ({}, {"env": {"engine": "cartpole"}}, "env.engine: cartpole steps all envs in one place"),
    ({"central": ASYNC}, {"algo": {"name": "a2c", "n_steps": 16}}, "train.central.mode: async learns from steps"),
    ({"central": ASYNC}, {"env": {"shaping": {"centring": 1.0}}}, "train.central.mode: async cannot train with env.sh"),
]


@pytest.mark.parametrize(("given", "sections", "line"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_does_not_fit_is_refused_in_one_line(given: Any, sections: Any, line: str) -> None:
    layout = "lockstep" if line.startswith("train.central.n_actors: only") else "central"
    name = sections.get("algo", {}).get("name", "ppo")
    with pytest.raises(UserError) as refused:
        small_config(name, **{k: v for k, v in sections.items() if k != "algo"}, train={"layout": layout} | given)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_cluster_that_does_not_answer_is_one_line() -> None:
    central = {"where": "127.0.0.1:1"}
    with pytest.raises(UserError, match=r"train\.central\.where=127.0.0.1:1: no Ray cluster answers there"):
        make_training_vec(small_config(train={"layout": "central", "central": central}))
