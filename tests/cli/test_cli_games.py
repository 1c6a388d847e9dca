"""A training whose game is killed: one line, the last checkpoint, and no process or temporary folder that is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, environment, run_command
from tests.processes import is_alive, running, wait_for

SMALL = ("env.n_envs=2", "algo.n_steps=16", "algo.batch_size=32", "eval.every=0")


def family_of(pid: int) -> dict[int, str]:
    """The commands of a process and of all that it started."""
    listed = subprocess.run(["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    family = {pid}
    for _ in range(4):
        family |= {int(own) for own, parent, *_ in rows if int(parent) in family}
    return {int(own): command[0] for own, _, *command in rows if int(own) in family and command}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "env_id,package,process_of_a_game,line",
    [
        ("VizdoomBasic-v1", "vizdoom", "/vizdoom/vizdoom", "the Doom process ended in the middle of a game"),
        ("Retro/Airstriker-Genesis", "stable_retro", "multiprocessing.spawn", "the worker of envs 0 to 0 "),
    ],
    ids=["Doom", "Retro"],
)
def test_a_killed_game_ends_the_run_with_its_last_checkpoint(
    env_id: str, package: str, process_of_a_game: str, line: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    command = [sys.executable, "-m", "gymnast", "train", env_id, "--quiet", "--runs-dir", str(tmp_path)]
    for change in SMALL:
        command += ["--set", change]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    surroundings = {**environment(), "TMPDIR": str(temporary)}
    with running(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=surroundings) as process:
        wait_for(lambda: list(tmp_path.rglob("checkpoints/*")), "checkpoint", process)
        family = family_of(process.pid)
        games = sorted(pid for pid, words in family.items() if process_of_a_game in words)
        assert len(games) == 2, family
        # no step is under way: a Doom that is killed while it holds the lock of its messages blocks its worker until
        # env.step_timeout
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(games[0], signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=100)
    assert process.returncode == 1
    assert f"{env_id}: {line}" in said
    assert "Traceback" not in said
    assert "gymnast resume" in said
    wait_for(lambda: not any(map(is_alive, family)), "end of every process")
    assert [path.name for path in temporary.iterdir() if "gymnast" in path.name] == []
    (run,) = run_command("runs", "list", "--json", "--runs-dir", tmp_path).json["runs"]
    assert run["status"] == "crashed"
