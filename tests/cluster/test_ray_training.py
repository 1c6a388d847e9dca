"""`gymnast train --on` a real Ray cluster, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.machine import RESERVED
from gymnast.runs import checkpoint
from gymnast.runs.folder import Run, list_runs
from gymnast.sinks.jsonl import read_metrics
from gymnast.verbs.train import start
from tests.cluster.conftest import kill_node
from tests.processes import is_alive, running, wait_for
from tests.warm import warm

pytestmark = pytest.mark.timeout(600)

CLOCK = ("time/elapsed", "time/fps", "time/updates_per_second", "time/share/", "eval/seconds")
# Rollouts of 256 steps; a checkpoint after each of them
SETTINGS = ("env.n_envs=8", "algo.n_steps=32", "eval.episodes=2", "stop.episodes=4", "train.checkpoint_seconds=1e-6")
SET = [word for setting in SETTINGS for word in ("--set", setting)]


def gymnast(*words: str, runs: Path) -> subprocess.CompletedProcess[str]:
    return warm.run((*words, "--runs-dir", runs))


def numbers(run: Path) -> list[dict[str, str]]:
    rows = read_metrics(run / "metrics.jsonl")
    return [{key: repr(value) for key, value in row.items() if not key.startswith(CLOCK)} for row in rows]


def test_a_run_whose_node_dies_ends_as_an_undisturbed_one(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8,192 steps here and there. There the node is killed as soon as the first checkpoint is here."""
    monkeypatch.setenv(RESERVED, "1")  # evaluations at once, as on a node of one core
    here = start("CartPole-v1", SETTINGS, tmp_path / "here", seed=5, steps=8192, quiet=True)
    said: list[str] = []

    def is_begun() -> bool:
        return any((run.path / "checkpoints" / "last.safetensors").exists() for run in list_runs(tmp_path / "there"))

    def say(text: str) -> None:
        said.append(text)
        if "Ctrl-C ends this command" in text:
            wait_for(is_begun, "checkpoint")
            kill_node(cluster, next(line for line in said if "it begins on" in line))

    there = start(
        "CartPole-v1", SETTINGS, tmp_path / "there", seed=5, steps=8192, quiet=True, on=cluster.address, say=say
    )
    (info,) = list_runs(tmp_path / "there")
    assert info.id == there.run
    assert info.on == cluster.address
    assert len(info.resumed_at) == 1
    assert numbers(info.path) == numbers(tmp_path / "here" / here.run)
    for key in ("score", "interval", "episodes", "best_at", "solved", "stop_reason"):
        assert there.to_json()[key] == here.to_json()[key]
    assert info.path.joinpath("report.md").exists()
    assert not Run(info.path).is_held  # nothing follows it any more


def test_detached_left_alone_stopped_and_resumed_here(cluster: Any, tmp_path: Path) -> None:
    """More steps than any machine makes, with --detach. The process that brings the files is killed: the run goes on,
    and `runs show` brings what is missing."""
    words = (
        "train",
        "CartPole-v1",
        "--steps",
        "1000000000",
        "--set",
        "stop.on_solved=false",
        "--set",
        "log.every=256",
        *SET,
    )
    done = gymnast(*words, "--on", cluster.address, "--detach", "--json", runs=tmp_path)
    assert done.returncode == 0, done.stderr
    (info,) = list_runs(tmp_path)
    run = Run(info.path)
    said = json.loads(done.stdout)
    assert (said["run"], said["on"]) == (run.id, cluster.address)
    assert info.command[:3] == ["gymnast", "train", "CartPole-v1"]
    wait_for(lambda: (run.checkpoints_dir / "last.safetensors").exists(), "a checkpoint")
    refused = gymnast("resume", run.id, runs=tmp_path)
    assert "is being trained right now" in refused.stderr

    (follower,) = [int(pid.name) for pid in Path("/proc").glob("[0-9]*") if holds(pid, run.path / "lock")]
    os.kill(follower, signal.SIGKILL)
    wait_for(lambda: not is_alive(follower), "end of the follower")
    assert run.read().status == "running"

    def size() -> int:
        return run.metrics_path.stat().st_size if run.metrics_path.exists() else 0

    before = size()

    def shown() -> str:
        return json.loads(gymnast("runs", "show", run.id, "--json", runs=tmp_path).stdout.splitlines()[-1])["status"]

    wait_for(lambda: shown() == "running" and size() > before, "new row")
    assert gymnast("runs", "stop", run.id, runs=tmp_path).returncode == 0
    wait_for(lambda: shown() == "interrupted", "end")
    steps = checkpoint.load(run.checkpoint_path("last")).step
    assert steps is not None
    assert read_metrics(run.metrics_path)[-1]["time/total_timesteps"] <= steps  # all files are here
    resumed = gymnast("resume", run.id, "--steps", str(steps + 512), "--quiet", "--json", runs=tmp_path)
    assert json.loads(resumed.stdout.splitlines()[-1])["env_steps"] >= steps + 512


def test_what_a_run_says_there_is_shown_here(cluster: Any, tmp_path: Path) -> None:
    """Like that its engine does not resume exactly, or where it goes on."""
    run = start("CartPole-v1", SETTINGS, tmp_path, steps=512, quiet=True).run
    done = gymnast("resume", run, "--steps", "1024", "--on", cluster.address, runs=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = f"a new run from {run} at 512 steps (train.total_timesteps: 512 -> 1024)"
    assert done.stdout.replace("\n", " ").count(expected) == 1, done.stdout
    assert "gymnast-job-" not in done.stdout  # the folder on the node


@pytest.mark.parametrize("verb", ["train", "benchmark"])
def test_sigterm_of_a_command_is_one_line(verb: str, cluster: Any, tmp_path: Path) -> None:
    """As Slurm, systemd and `timeout` end it. A run goes on, of a benchmark the same command does the rest."""
    endless = [*SET, "--set", "stop.on_solved=false"]
    words = {
        "train": ["train", "CartPole-v1", "--steps", "1000000000", *endless, "--runs-dir", str(tmp_path)],
        "benchmark": ["benchmark", "CartPole-v1", "--seeds", "500", "--out", str(tmp_path)],
    }
    begun = {"train": "*/checkpoints/last.safetensors", "benchmark": "runs/*/[!.]*.json"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with running([sys.executable, "-m", "gymnast", *words[verb], "--on", cluster.address], **pipes) as command:
        wait_for(lambda: any(tmp_path.glob(begun[verb])), "something on the disk", command)
        command.terminate()
        *others, last = command.communicate(timeout=60)[0].splitlines()
    assert not [line for line in others if "SIGTERM" in line or "Traceback" in line]
    assert command.returncode == 130
    if verb == "benchmark":
        assert "The same command does the others." in last
        return
    (info,) = list_runs(tmp_path)
    assert last.startswith(f"gymnast: {info.id} goes on. See it: gymnast runs follow ")
    assert gymnast("runs", "stop", info.id, runs=tmp_path).returncode == 0
    wait_for(lambda: not Run(info.path).live(), "end")


def holds(process: Path, path: Path) -> bool:
    try:
        return any(os.path.realpath(one) == str(path) for one in (process / "fd").iterdir())
    except OSError:  # somebody else's, or just gone
        return False
