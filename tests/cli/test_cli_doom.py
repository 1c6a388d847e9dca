"""A training in Doom whose game is killed: one line, the last checkpoint, and no process that is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, environment, run_command
from tests.processes import is_alive, running, wait_for

pytest.importorskip("vizdoom")

SMALL = ("env.n_envs=2", "algo.n_steps=16", "algo.batch_size=32", "eval.every=0")


def dooms_below(pid: int) -> list[int]:
    """Doom processes of a process and of those that it started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    family = {pid}
    for _ in range(4):
        family |= {int(own) for own, parent, _ in rows if int(parent) in family}
    return [int(own) for own, _, name in rows if int(own) in family and name.startswith("vizdoom")]


def test_a_killed_doom_ends_the_run_with_its_last_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gymnast", "train", "VizdoomBasic-v1", "--quiet", "--runs-dir", str(tmp_path)]
    for change in SMALL:
        command += ["--set", change]
    with running(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment()) as process:
        wait_for(lambda: list(tmp_path.rglob("checkpoints/*")), "checkpoint", process)
        dooms = dooms_below(process.pid)
        assert len(dooms) == 2
        os.kill(dooms[0], signal.SIGKILL)
        _, said = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "VizdoomBasic-v1: the Doom process ended in the middle of a game" in said
    assert "Traceback" not in said
    assert "gymnast resume" in said
    wait_for(lambda: not any(map(is_alive, dooms)), "end of every Doom")
    (run,) = run_command("runs", "list", "--json", "--runs-dir", tmp_path).json["runs"]
    assert run["status"] == "crashed"
