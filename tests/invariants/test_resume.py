"""A run that was stopped and resumed is the run that was not, number for number."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from gymnast.config import RunConfig
from gymnast.runs import checkpoint
from gymnast.sinks.jsonl import read_metrics
from gymnast.training.loop import train
from gymnast.training.state import TrainState, restore, save_state
from tests.invariants.conftest import small_config

NORMALISED = {"normalize_obs": True, "normalize_reward": True, "hidden": [16]}
SCHEDULED = {"learning_rate": {"start": 1e-3, "end": 1e-4, "shape": "cosine"}, "ent_coef": "lin_0.01"}


def without_time(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Everything but how long things took."""
    timing = ("time/elapsed", "time/fps", "time/updates_per_second", "time/share/", "eval/seconds")
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
    config = small_config(algo, env, agent=NORMALISED | agent, algo=SCHEDULED, eval={"policy": "both"})
    resumes_exactly(config, tmp_path, make_session)


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
    """A rate that breaks the agent: alerts begin before the interruption and count on after it."""
    config = small_config(algo={"learning_rate": 1.0})
    rows = resumes_exactly(config, tmp_path, make_session)
    session = make_session(config)
    for row in rows:
        session.alerts.check(row)
    counts = {alert.rule: (alert.since, alert.count) for alert in session.alerts.alerts}
    stopped_at = checkpoint.load(tmp_path / "last.safetensors").state["counters"]["env_steps"]
    assert any(since <= stopped_at and count > 6 for since, count in counts.values()), counts


def test_rows_between_updates_survive_too(tmp_path: Path, make_session: Any) -> None:
    """Where a row covers several updates, an interruption in between must not lose what was gathered."""
    config = small_config("ppo", log={"every": 1000})
    rows: list[dict[str, float]] = []
    train(make_session(config), observer=rows.append)
    session = make_session(config)
    first: list[dict[str, float]] = []
    session.counters.next_row = 10**9  # nothing is told before the signal, which comes with the first evaluation
    stops = interrupt_after(1)
    session.counters.next_row = config.log_every

    def observe(row: dict[str, float]) -> None:
        first.append(row)
        stops(row)

    train(session, checkpoints=tmp_path, observer=observe)
    saved = checkpoint.load(tmp_path / "last.safetensors")
    resumed = make_session(config)
    restore(resumed, saved.tensors, saved.state)
    second: list[dict[str, float]] = []
    train(resumed, observer=second.append)
    equal(rows, first + second)


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


def command(*arguments: str, runs: Path) -> list[str]:
    return [sys.executable, "-m", "gymnast", *arguments, "--runs-dir", str(runs), "--quiet"]


def only_run(runs: Path) -> Path:
    return next(path for path in runs.iterdir() if (path / "run.json").exists())


SETTINGS = [
    *("--set", "env.engine=sync", "--set", "stop.on_solved=false", "--set", "eval.episodes=2"),
    *("--set", "stop.episodes=2", "--set", "agent.normalize_obs=true", "--set", "agent.normalize_reward=true"),
    *("--set", "algo.learning_rate={start: 1e-3, end: 1e-4}", "--steps", "12000"),
]


def test_sigterm_and_resume_through_the_command(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    subprocess.run(command("train", "CartPole-v1", *SETTINGS, runs=whole), check=True)
    process = subprocess.Popen(command("train", "CartPole-v1", *SETTINGS, runs=parts))
    metrics = None
    while process.poll() is None and (metrics is None or len(read_metrics(metrics)) < 3):
        metrics = next(parts.glob("*/metrics.jsonl"), None)
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    run = only_run(parts)
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    before = len(read_metrics(run / "metrics.jsonl"))
    subprocess.run(command("resume", "@last", runs=parts), check=True)
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    rows = read_metrics(run / "metrics.jsonl")
    assert 0 < before < len(rows)
    equal(read_metrics(only_run(whole) / "metrics.jsonl"), rows)


def test_kill_9_loses_only_what_came_after_the_last_checkpoint(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = [*SETTINGS, "--set", "train.checkpoint_every=2048"]
    subprocess.run(command("train", "CartPole-v1", *settings, runs=whole), check=True)
    process = subprocess.Popen(command("train", "CartPole-v1", *settings, runs=parts))
    while process.poll() is None and not list(parts.glob("*/checkpoints/step_*.safetensors")):
        time.sleep(0.02)
    time.sleep(0.3)
    process.kill()
    process.wait()
    run = only_run(parts)
    subprocess.run(command("resume", "@last", runs=parts), check=True)
    equal(read_metrics(only_run(whole) / "metrics.jsonl"), read_metrics(run / "metrics.jsonl"))
