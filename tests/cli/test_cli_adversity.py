"""What goes wrong around a run: full disks, folders that vanish, two who resume at once; and what must never happen."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gymnast.runs.folder import Run
from tests.cli.conftest import ROOT, TINY, Command, Trained, assert_answered, environment, run_command
from tests.processes import running, wait_for

SECRET = "s3cr3t-0123456789"
KEYS = ("WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_OWN_TOKEN")

# Every connection and every look-up of a name is written down and refused
NO_NETWORK = """
import os, socket
def refuse(*args, **kwargs):
    with open(os.environ["NETWORK_LOG"], "a") as file:
        file.write(repr(args[1:] or kwargs) + "\\n")
    raise OSError("no network here")
connect = socket.socket.connect
def checked(self, place):
    return connect(self, place) if self.family == socket.AF_UNIX else refuse(self, place)
socket.socket.connect = checked
socket.getaddrinfo = lambda *args, **kwargs: refuse(None, *args)
"""


def test_no_network_is_opened_and_no_key_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    log, runs_dir = tmp_path / "network.txt", tmp_path / "runs"
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    extra = {"PYTHONPATH": path, "NETWORK_LOG": str(log), **dict.fromkeys(KEYS, SECRET)}
    outcome = run_command("train", "CartPole-v1", *TINY, "--track", "csv", "--runs-dir", runs_dir, **extra)
    assert outcome.code == 0, outcome.err
    assert not log.exists(), log.read_text()
    files = [file for file in runs_dir.rglob("*") if file.is_file()]
    assert len(files) > 8
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]
    assert SECRET not in outcome.out + outcome.err


def test_a_full_disk_is_a_line_and_the_run_is_still_listed(tmp_path: Path) -> None:
    """No file may grow beyond 64 kB: rows and run.json fit, a checkpoint does not."""
    command = [sys.executable, "-m", "gymnast", "train", "CartPole-v1", *TINY, "--quiet", "--runs-dir", str(tmp_path)]
    limit = (1 << 16, 1 << 16)
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("gymnast: cannot save ")
    assert "File too large" in last
    assert [run["status"] for run in run_command("runs", "list", "--json", "--runs-dir", tmp_path).json["runs"]] == [
        "crashed"
    ]


def test_a_folder_that_vanishes_ends_the_run_with_a_line(tmp_path: Path) -> None:
    endless = ("--steps", "1000000000", "--set", "stop.on_solved=false", "--set", "train.checkpoint_seconds=0.1")
    command = [
        sys.executable,
        "-m",
        "gymnast",
        "train",
        "CartPole-v1",
        *endless,
        "--quiet",
        "--runs-dir",
        str(tmp_path),
    ]
    with running(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        (found,) = wait_for(lambda: list(tmp_path.glob("*/checkpoints/last.safetensors")), "a checkpoint", process)
        run = found.parent.parent
        run.rename(tmp_path / ".gone")  # at once, as an unmounted disk is
        _, errors = process.communicate(timeout=100)
    shutil.rmtree(tmp_path / ".gone")
    assert process.returncode == 2, errors
    assert "Traceback" not in errors
    assert run.name in errors.splitlines()[-1]


@pytest.mark.parametrize("place", ["/proc/none", "/dev/null/runs", "L" * 300])
def test_a_folder_that_cannot_be_made(call: Command, place: str) -> None:
    outcome = call("train", "CartPole-v1", *TINY, "--runs-dir", place)
    assert_answered(outcome, place, code=2)
    assert "cannot create a run" in outcome.err or "--runs-dir" in outcome.err


def test_of_two_who_resume_a_run_one_does_and_the_other_changes_nothing(
    call: Command, trained: Trained, tmp_path: Path
) -> None:
    """The other process has the lock, and has not yet written down that it trains."""
    copy = tmp_path / "runs" / trained.path.name
    shutil.copytree(trained.path, copy)
    shutil.copy2(copy / "checkpoints" / "step_512.safetensors", copy / "checkpoints" / "last.safetensors")
    first = Run(copy)
    assert first._lock.acquire()
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    outcome = call("resume", copy.name, "--quiet", "--runs-dir", copy.parent)
    assert_answered(outcome, "resumed twice", code=2)
    assert "is being trained by another process" in outcome.err
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    first._lock.release()


def test_memory_and_open_files_do_not_grow_with_steps() -> None:
    code = """
import os
from gymnast import PPO
def used():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir("/proc/self/fd"))
model = PPO("MlpPolicy", "CartPole-v1", n_steps=512)
model.learn(20_000)
first = used()
model.learn(60_000)
second = used()
print(second[0] - first[0], second[1] - first[1])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    megabytes, files = map(float, ended.stdout.split()[-2:])
    assert megabytes < 10  # a leak of 200 bytes a step
    assert files == 0
