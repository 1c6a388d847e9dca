"""gymnast autotune as a user runs it: killed, stopped, continued, misused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ROOT, Command, environment
from tests.processes import running, wait_for

# Never solved before 300,000 steps, since nothing is evaluated before: far more than anyone waits for here
SPOILT = ("autotune", "CartPole-v1", "--set", "algo.learning_rate=0.3", "--seed", "4")
LONG = ("--set", "train.total_timesteps=300_000", "--set", "log.every=2048", "--set", "eval.every=0")


def lines(runs_dir: Path) -> list[dict[str, Any]]:
    found = list(runs_dir.glob("autotune/*/journal.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text().splitlines() if line.endswith("}")]


def story(runs_dir: Path) -> list[Any]:
    """What was trained and decided, without names of runs and times."""
    told = []
    for line in lines(runs_dir):
        if line["kind"] == "segment":
            outcome = line["outcome"]
            told.append([outcome[key] for key in ("env_steps", "trained", "reason", "returns", "solved")])
        if line["kind"] == "decision":
            told.append([line["step"], line["patch"], line["kept"], line["control"]["score"], line["patched"]["score"]])
    return told


def stop_after(segments: int, how: signal.Signals, runs_dir: Path) -> tuple[int, str]:
    """Starts the command with an endless budget, and stops it when there are so many segments."""
    command = [sys.executable, "-m", "gymnast", *SPOILT, *LONG, "--budget", "100M", "--runs-dir", str(runs_dir)]
    with running(command, cwd=ROOT, env=environment(), text=True, stderr=subprocess.PIPE) as process:
        ended = lambda: sum(line["kind"] == "segment" for line in lines(runs_dir)) >= segments  # noqa: E731
        wait_for(ended, f"{segments} segments", process)
        process.send_signal(how)
        _, said = process.communicate()
    return process.returncode, said


def test_killed_stopped_and_continued(gymnast: Command, tmp_path: Path) -> None:
    """Number for number what an undisturbed tuning finds, since runs resume exactly; only the last stretch, which the
    budget ends, may be longer where the stopped ones had more."""
    whole = gymnast(*SPOILT, *LONG, "--budget", "80k", "--json", "--runs-dir", tmp_path / "a")
    assert whole.code == 0, whole.err
    assert not whole.json["solved"]
    assert [decision["kept"] for decision in whole.json["decisions"]] == [True]
    told = story(tmp_path / "a")
    assert len(told) >= 5  # to the alert, control, the changed run, the decision, on with it

    code, _ = stop_after(1, signal.SIGKILL, tmp_path / "b")
    assert code == -signal.SIGKILL
    code, said = stop_after(2, signal.SIGINT, tmp_path / "b")
    assert code == 130
    assert "The same command goes on" in said
    assert "Traceback" not in said
    kept = lines(tmp_path / "b")
    finished = gymnast(*SPOILT, *LONG, "--budget", "80k", "--json", "--runs-dir", tmp_path / "b")
    assert finished.code == 0, finished.err
    assert lines(tmp_path / "b")[: len(kept)] == kept  # nothing is trained twice
    assert story(tmp_path / "b")[: len(told) - 1] == told[:-1]
    assert finished.json["settings"] == whole.json["settings"] == {"algo.learning_rate": "lin_0.003"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("CartPol-v1",), "CartPol"),
        (("CartPole-v1", "--budget", "much"), "--budget much: not understood"),
        (("CartPole-v1", "--budget", "-5k"), "--budget -5k: not understood"),
        (("CartPole-v1", "--set", "algo.gama=0.9"), "algo.gamma"),
        (("CartPole-v1:nothing",), "nothing"),
        (("@last",), "no runs yet"),
        (("missing.yaml",), "missing.yaml"),
        (("CartPole-v1:and-acrobot",), "tasks"),
        (("CartPole-v1", "--set", "stop.threshold=501"), "stop.threshold"),
    ],
)
def test_a_mistake_is_one_line_and_starts_nothing(
    call: Command, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    outcome = call("autotune", *arguments, "--runs-dir", tmp_path / "runs")
    assert outcome.code == 2, outcome
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
