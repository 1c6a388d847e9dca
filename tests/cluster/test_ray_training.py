"""`gymnast train --on` a real Ray cluster, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.machine import RESERVED
from gymnast.runs.folder import Run, list_runs
from gymnast.sinks.jsonl import read_metrics
from gymnast.verbs.runs.change import stop_runs
from gymnast.verbs.train import start
from tests.cluster.conftest import kill_node
from tests.processes import is_alive, wait_for

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("ray")]

ROOT = Path(__file__).parents[2]
CLOCK = ("time/elapsed", "time/fps", "time/updates_per_second", "time/share/", "eval/seconds")
# Rollouts of 256 steps; a checkpoint after each of them
SETTINGS = ("env.n_envs=8", "algo.n_steps=32", "eval.episodes=2", "stop.episodes=4", "train.checkpoint_seconds=1e-6")


def command(*words: str, on: str, runs: Path) -> list[str]:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    return [sys.executable, "-m", "gymnast", *words, *settings, "--on", on, "--runs-dir", str(runs)]


def numbers(run: Run) -> list[dict[str, str]]:
    rows = read_metrics(run.metrics_path)
    return [{key: repr(value) for key, value in row.items() if not key.startswith(CLOCK)} for row in rows]


@pytest.fixture
def endless(cluster: Any, tmp_path: Path) -> Iterator[tuple[Run, str]]:
    """A run with more steps than any machine makes, started with --detach; and where it was placed."""
    words = ("train", "CartPole-v1", "--steps", "1000000000", "--set", "stop.on_solved=false", "--detach")
    done = subprocess.run(
        command(*words, on=cluster.address, runs=tmp_path), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (info,) = list_runs(tmp_path)
    assert info.status == "running"  # the command has ended, the run has not
    assert info.on == cluster.address
    placed = next(line for line in done.stdout.splitlines() if "it begins on" in line)
    yield Run(info.path), placed
    if Run(info.path).live():
        stop_runs([Run(info.path)])
        wait_for(lambda: not Run(info.path).live(), "end")


def test_a_run_whose_node_dies_ends_as_an_undisturbed_one(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8,192 steps here and there. There the node is killed as soon as its first rows are here."""
    monkeypatch.setenv(RESERVED, "1")  # evaluations at once, as on a node of one core
    here = start("CartPole-v1", SETTINGS, tmp_path / "here", seed=5, steps=8192, quiet=True)
    said: list[str] = []

    def kill_soon() -> None:
        wait_for(
            lambda: any(run.summary is not None and rows(run.path) for run in list_runs(tmp_path / "there")), "row"
        )

    def rows(path: Path) -> bool:
        return (path / "metrics.jsonl").exists() and (path / "checkpoints" / "last.safetensors").exists()

    process = subprocess.Popen(
        command("train", "CartPole-v1", "--steps", "8192", "--seed", "5", on=cluster.address, runs=tmp_path / "there"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if "Ctrl-C ends this command" in line:
            kill_soon()
            kill_node(cluster, next(line for line in said if "it begins on" in line))
    assert process.wait() == 0
    assert any("it goes on, on" in line for line in said)
    (info,) = list_runs(tmp_path / "there")
    there = Run(info.path)
    assert info.id.split("-")[1:] == here.run.split("-")[1:]
    assert info.command[:3] == ["gymnast", "train", "CartPole-v1"]
    assert len(info.resumed_at) == 1
    assert numbers(there) == numbers(Run(tmp_path / "here" / here.run))
    ended = {key: value for key, value in here.to_json().items() if key in ("score", "interval", "episodes", "best_at")}
    assert {key: info.summary[key] for key in ended} == json.loads(json.dumps(ended))
    assert not there.is_held
    assert there.report_path.exists()


def test_stopped_from_here_and_resumed_here(cluster: Any, endless: tuple[Run, str]) -> None:
    run, _ = endless
    wait_for(lambda: run.checkpoint_path("last").exists(), "checkpoint")
    stop_runs([run])
    wait_for(lambda: not run.live(), "end")
    assert run.read().status == "interrupted"
    from gymnast.runs import checkpoint

    steps = checkpoint.load(run.checkpoint_path("last")).step
    assert steps is not None
    assert read_metrics(run.metrics_path)[-1]["time/total_timesteps"] <= steps  # all files are here
    words = ["resume", run.id, "--steps", str(steps + 512), "--quiet", "--json", "--runs-dir", str(run.path.parent)]
    resumed = subprocess.run(
        [sys.executable, "-m", "gymnast", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(resumed.stdout)["env_steps"] >= steps + 512


def test_files_come_again_after_their_follower_was_killed(cluster: Any, endless: tuple[Run, str]) -> None:
    """The process that brings the files is killed. The run goes on; `runs show` brings what is missing."""
    run, _ = endless
    followers = subprocess.run(["pgrep", "-f", "gymnast/jobs/child.py"], capture_output=True, text=True, check=False)
    mine = [int(pid) for pid in followers.stdout.split() if holds(int(pid), run.path / "lock")]
    assert len(mine) == 1
    os.kill(mine[0], signal.SIGKILL)
    wait_for(lambda: not is_alive(mine[0]), "end of the follower")
    assert not run.is_held
    assert run.read().status == "running"
    before = run.metrics_path.stat().st_size
    show = [sys.executable, "-m", "gymnast", "runs", "show", run.id, "--json", "--runs-dir", str(run.path.parent)]

    def grown() -> bool:
        shown = subprocess.run(show, cwd=ROOT, capture_output=True, text=True, check=True)
        assert json.loads(shown.stdout.splitlines()[-1])["status"] == "running"
        return run.metrics_path.stat().st_size > before

    wait_for(grown, "new row")


def holds(pid: int, path: Path) -> bool:
    try:
        return any(os.path.realpath(one) == str(path) for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
