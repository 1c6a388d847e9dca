"""A run that was stopped and resumed is the run that was not, number for number."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from gymnast.config import RunConfig, load
from gymnast.core import pulse
from gymnast.runs import checkpoint
from gymnast.sinks.jsonl import read_metrics
from gymnast.training import state
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import TrainState, restore, save_state
from tests.envs_for_tests import full_id
from tests.invariants.conftest import small_config
from tests.processes import running, wait_for

NORMALISED = {"normalize_obs": True, "normalize_reward": True, "hidden": [16]}
# Evaluated before and after the interruption, which comes after five rows: 320 steps of A2C, 1,280 of REINFORCE
SHORT: dict[str, Any] = {
    "train": {"total_timesteps": 2048, "seed": 1},
    "eval": {"every": 512, "episodes": 2, "policy": "both"},
}
SCHEDULED = {"learning_rate": {"start": 1e-3, "end": 1e-4, "shape": "cosine"}, "ent_coef": "lin_0.01"}


def without_time(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Everything but how long things took."""
    timing = ("time/elapsed", "time/fps", "time/updates_per_second", "time/share/", "eval/seconds", "central/")
    return [{k: v for k, v in row.items() if not k.startswith(timing)} for row in rows]


def equal(a: list[dict[str, float]], b: list[dict[str, float]]) -> None:
    assert [row["time/total_timesteps"] for row in a] == [row["time/total_timesteps"] for row in b]
    for left, right in zip(without_time(a), without_time(b), strict=True):
        assert left.keys() == right.keys()
        for key, value in left.items():
            same = value == right[key] or (value != value and right[key] != right[key])  # NaN is not equal to itself
            assert same, f"{key} at {left['time/total_timesteps']}: {value} and {right[key]}"


def interrupt_after(updates: int) -> Any:
    """An observer that sends this process the signal a user or a scheduler would."""
    seen = 0

    def observe(row: dict[str, float]) -> None:
        nonlocal seen
        seen += 1
        if seen == updates:
            os.kill(os.getpid(), signal.SIGTERM)

    return observe


@pytest.mark.parametrize(
    "env, agent",
    [
        ("CartPole-v1", {}),
        ("FrozenLake-v1", {}),
        ("Pendulum-v1", {}),
        ("Pendulum-v1", {"std": "sde"}),
        ("Pendulum-v1", {"std": "sde", "sde_sample_freq": 5}),
    ],
    ids=str,
)
@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_resumed_equals_uninterrupted(
    algo: str, env: str, agent: dict[str, Any], tmp_path: Path, make_session: Any
) -> None:
    config = small_config(algo, env, agent=NORMALISED | agent, algo=SCHEDULED, **SHORT)
    resumes_exactly(config, tmp_path, make_session)


@pytest.mark.parametrize("agent", [{}, {"critic_hidden": [8, 8]}], ids=["compiled", "torch"])
def test_resumed_equals_uninterrupted_with_an_adapted_rate(
    agent: dict[str, Any], tmp_path: Path, make_session: Any
) -> None:
    adapted = {"desired_kl": 0.05, "critic_learning_rate": 2e-3, "optimizer": "adamw", "weight_decay": 0.01}
    rows = resumes_exactly(small_config(agent=agent, algo=adapted), tmp_path, make_session)
    assert len({row["train/learning_rate"] for row in rows}) > 2


@pytest.mark.parametrize("engine", ["sync", "cartpole"])
def test_resumed_equals_uninterrupted_with_shaping(engine: str, tmp_path: Path, make_session: Any) -> None:
    shaped = {"id": "CartPole-v1", "n_envs": 4, "engine": engine, "shaping": {"centring": 3.0}}
    rows = resumes_exactly(small_config(env=shaped), tmp_path, make_session)
    assert {"rollout/component/centring", "rollout/component/env", "rollout/ep_shaped_rew_mean"} <= rows[-1].keys()


def test_resumed_equals_uninterrupted_with_drawn_physics(tmp_path: Path, make_session: Any) -> None:
    lander = {
        "id": "gymnast/RandomisedLunarLander-v0",
        "kwargs": {"gravity": [-12, -8], "wind_power": [0, 15], "turbulence_power": [0, 1.5]},
        "shaping": {"time": 0.05, "descent": 20.0},
    }
    resumes_exactly(small_config(env=lander), tmp_path, make_session)


def test_resumed_equals_uninterrupted_where_an_env_has_a_past(tmp_path: Path, make_session: Any) -> None:
    """A world of Box2D that had other bodies before adds up forces in another order than that of a new env."""
    walker = {"id": "BipedalWalker-v3", "max_episode_steps": 20}
    resumes_exactly(small_config(env=walker), tmp_path, make_session)


def test_resumed_equals_uninterrupted_where_an_env_samples_its_spaces(tmp_path: Path, make_session: Any) -> None:
    resumes_exactly(small_config(env={"id": full_id("Sampling-v0")}), tmp_path, make_session)


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_it_is_said_how_many_episodes_are_still_to_be_replayed(
    engine: str, make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "REPLAY_SECONDS", 0.0)
    config = small_config(env={"engine": engine})
    tensors, values = save_state(make_session(config))
    said: list[str] = []
    restore(make_session(config), tensors, values, say=said.append)
    assert said == [f"replaying unfinished episodes: {left} of 4 left" for left in (3, 2, 1)]


def resumes_exactly(config: RunConfig, tmp_path: Path, make_session: Any) -> list[dict[str, float]]:
    """Trains whole, and again with an interruption in the middle; returns the rows, which are the same."""
    rows: list[dict[str, float]] = []
    whole = make_session(config)
    train(whole, observer=rows.append)

    first: list[dict[str, float]] = []
    stopped = make_session(config)
    interrupt = interrupt_after(5)

    def observe(row: dict[str, float]) -> None:
        first.append(row)
        interrupt(row)

    result = train(stopped, checkpoints=tmp_path, observer=observe)
    assert result.stop_reason == "interrupted"
    assert 0 < len(first) < len(rows)
    saved = checkpoint.load(tmp_path / "last.safetensors")
    second: list[dict[str, float]] = []
    resumed = make_session(config)
    assert restore(resumed, saved.tensors, saved.state) == []
    train(resumed, observer=second.append)
    equal(rows, first + second)
    for name, tensor in whole.agent.state_dict().items():
        assert torch.equal(tensor, resumed.agent.state_dict()[name]), name
    assert alerts_of(resumed) == alerts_of(whole)
    return rows


def alerts_of(session: TrainState) -> list[dict[str, Any]]:
    """Everything but what is said about the speed."""
    return [alert.to_json() for alert in session.alerts.alerts if alert.rule != "rate_falls"]


def test_alerts_go_on_counting(tmp_path: Path, make_session: Any) -> None:
    """Rewards that are far too small: the alert begins before the interruption and counts on after it."""
    config = small_config(env={"reward": {"scale": 1e-6}})
    rows = resumes_exactly(config, tmp_path, make_session)
    session = make_session(config)
    for row in rows:
        session.alerts.check(row)
    counts = {alert.rule: (alert.since, alert.count) for alert in session.alerts.alerts}
    stopped_at = checkpoint.load(tmp_path / "last.safetensors").state["counters"]["env_steps"]
    assert any(since <= stopped_at and count > 6 for since, count in counts.values()), counts


def test_rows_between_updates_survive_too(tmp_path: Path, make_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row covers several updates, an interruption in between must not lose what was gathered."""
    config = small_config("ppo", log={"every": 1000})  # a row every 8 rollouts of 4 x 32 steps
    rows: list[dict[str, float]] = []
    train(make_session(config), observer=rows.append)
    session = make_session(config)
    step, calls = session.env.step, itertools.count()

    def step_and_interrupt(actions: Any) -> Any:
        if next(calls) == 11 * 32 + 5:  # in the twelfth rollout: the ninth, tenth and eleventh are in no row yet
            os.kill(os.getpid(), signal.SIGTERM)
        return step(actions)

    monkeypatch.setattr(session.env, "step", step_and_interrupt)
    first: list[dict[str, float]] = []
    assert train(session, checkpoints=tmp_path, observer=first.append).stop_reason == "interrupted"
    assert [row["time/total_timesteps"] for row in first] == [1024]
    saved = checkpoint.load(tmp_path / "last.safetensors")
    assert saved.step == 12 * 128
    resumed = make_session(config)
    restore(resumed, saved.tensors, saved.state)
    second: list[dict[str, float]] = []
    train(resumed, observer=second.append)
    equal(rows, first + second)


@pytest.mark.parametrize("at", [1024, 4096], ids=["an evaluation", "the last verdict"])
def test_an_evaluation_that_is_broken_off_is_done_again(at: int, tmp_path: Path, make_session: Any) -> None:
    """A signal while evaluation envs step: the run is saved at once, in the middle of a round, and goes on there."""
    config = small_config("ppo", agent=NORMALISED, eval={"policy": "both"})
    rows: list[dict[str, float]] = []
    whole = make_session(config, 475.0)
    train(whole, observer=rows.append)

    stopped = make_session(config, 475.0)
    step, wanted = stopped.judge.env.step, "score" if at == 4096 else "evaluating"

    def step_and_interrupt(actions: Any) -> Any:
        if stopped.counters.env_steps == at and stopped.pulse.activity.name == wanted and stopped.pulse.done == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(actions)

    stopped.judge.env.step = step_and_interrupt
    first: list[dict[str, float]] = []
    result = train(stopped, checkpoints=tmp_path, observer=first.append)
    assert (result.stop_reason, result.env_steps, result.verdict) == ("interrupted", at, None)
    assert [row for row in first if row["time/total_timesteps"] == at] == []
    saved = checkpoint.load(tmp_path / "last.safetensors")
    assert saved.state["counters"]["unjudged"]
    resumed = make_session(config, 475.0)
    assert restore(resumed, saved.tensors, saved.state) == []
    second: list[dict[str, float]] = []
    train(resumed, observer=second.append)
    equal(rows, first + second)
    assert resumed.judge.record == whole.judge.record
    for name, tensor in whole.agent.state_dict().items():
        assert torch.equal(tensor, resumed.agent.state_dict()[name]), name


@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_a_time_limit_holds_in_a_rollout(
    algo: str, tmp_path: Path, make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is learned from the rollout that it cuts, and no episode goes on over the gap."""
    config = small_config(algo, agent=NORMALISED, stop={"on_solved": False, "episodes": 4, "seconds": 1000.0})
    session = make_session(config)
    size, step, calls = session.rollout.n_steps, session.env.step, itertools.count()

    def step_until_the_time_is_up(actions: Any) -> Any:
        if next(calls) == 3 * size + 5:
            session.pulse.until = session.pulse.cut_at = 0.0
        return step(actions)

    monkeypatch.setattr(session.env, "step", step_until_the_time_is_up)
    rows: list[dict[str, float]] = []
    result = train(session, checkpoints=tmp_path, observer=rows.append)
    assert (result.stop_reason, result.env_steps, next(calls)) == ("seconds", 3 * size * 4, 3 * size + 6)
    assert result.verdict is not None
    assert rows[-1]["time/total_timesteps"] == 3 * size * 4
    saved = checkpoint.load(tmp_path / "last.safetensors")
    longer = make_session(small_config(algo, agent=NORMALISED))
    restore(longer, saved.tensors, saved.state)
    assert longer.collector.cut
    train(longer, observer=rows.append)
    assert not longer.collector.cut
    assert rows[-1]["time/total_timesteps"] == 4096


def test_a_time_limit_holds_in_the_last_score(make_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an env whose episodes never end: the run ends without a score instead of waiting for one."""
    monkeypatch.setattr(pulse, "last_score_seconds", lambda seconds: 0.05)
    env = {"id": "tests.envs_for_tests:test/Slow-v0", "n_envs": 2, "kwargs": {"length": 10**9}}
    budget = {"total_timesteps": 1_000_000}
    algo = {"n_steps": 100_000, "batch_size": 2000}
    config = small_config(env=env, train=budget, algo=algo, stop={"seconds": 0.1})
    result = train(make_session(config))
    assert (result.stop_reason, result.env_steps, result.verdict) == ("seconds", 0, None)


def test_the_first_checkpoint_follows_the_first_update(tmp_path: Path, make_session: Any) -> None:
    saved: list[int | None] = []

    def look(row: dict[str, float]) -> None:
        path = tmp_path / "last.safetensors"
        saved.append(checkpoint.load(path).step if path.exists() else None)

    train(make_session(small_config(log={"every": 128}, eval={"every": 0})), checkpoints=tmp_path, observer=look)
    assert saved[:3] == [None, 128, 128]  # the next one is due after a minute


def test_a_checkpoint_holds_the_same_state_twice(make_session: Any) -> None:
    session = make_session(small_config("reinforce", agent=NORMALISED))
    tensors, state = save_state(session)
    again = make_session(session.config)
    restore(again, {k: torch.as_tensor(v).clone() for k, v in tensors.items()}, state)
    tensors_again, state_again = save_state(again)
    assert state_again == state
    assert tensors.keys() == tensors_again.keys()
    for name in tensors:
        assert torch.equal(torch.as_tensor(tensors[name]), torch.as_tensor(tensors_again[name])), name


# More steps than any machine makes in minutes: only a signal ends these. A row every rollout, a checkpoint every four.
ENDLESS = [
    *("env.engine=sync", "stop.on_solved=false", "eval.every=4096", "eval.episodes=2", "stop.episodes=2"),
    *("agent.normalize_obs=true", "agent.normalize_reward=true", "algo.learning_rate={start: 1e-3, end: 1e-4}"),
    *("train.total_timesteps=50000000", "train.checkpoint_every=8192", "log.every=2048"),
]


@contextmanager
def command(*arguments: str, runs: Path) -> Iterator[subprocess.Popen[Any]]:
    with running([sys.executable, "-m", "gymnast", *arguments, "--runs-dir", str(runs), "--quiet"]) as process:
        yield process


def rows_in(runs: Path) -> list[dict[str, float]]:
    """The rows of the only run there."""
    return [row for path in runs.glob("*/metrics.jsonl") for row in read_metrics(path)]


def uninterrupted(rows: int) -> list[dict[str, float]]:
    """The same run in this process, as far as so many rows."""
    resolved = load("CartPole-v1", ENDLESS)
    seen: list[dict[str, float]] = []
    interrupt = interrupt_after(rows)
    session = build(resolved.config, resolved.threshold)
    try:
        train(session, observer=lambda row: (seen.append(row), interrupt(row)))  # type: ignore[func-returns-value]
    finally:
        session.close()
    return seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_and_resumed_through_the_command(number: signal.Signals, tmp_path: Path) -> None:
    """After kill -9 what came after the last checkpoint is made again; SIGTERM loses nothing."""
    settings = [word for setting in ENDLESS for word in ("--set", setting)]
    with command("train", "CartPole-v1", *settings, runs=tmp_path) as process:
        wait_for(lambda: len(rows_in(tmp_path)) >= 5, "fifth row", process)
        process.send_signal(number)
        assert process.wait(60) == (130 if number == signal.SIGTERM else -number)
    (run,) = tmp_path.iterdir()
    before = len(rows_in(tmp_path))
    if number == signal.SIGTERM:
        assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    with command("resume", "@last", runs=tmp_path) as process:
        wait_for(lambda: len(rows_in(tmp_path)) >= before + 3, "row of the resumed run", process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    assert list(tmp_path.iterdir()) == [run]  # it is the same run
    rows = rows_in(tmp_path)
    equal(uninterrupted(len(rows)), rows)
