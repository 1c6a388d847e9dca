"""What goes wrong around a run: full disks, folders that vanish, two who resume at once; and what must never happen."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gymnast.core.files import TEMPORARY
from gymnast.runs.folder import Run
from gymnast.sinks.jsonl import read_metrics
from tests.cli.conftest import ROOT, TINY, Command, Trained, assert_answered, environment, run_command
from tests.processes import running, wait_for
from tests.warm import Warm, warm

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


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux' /proc")
@pytest.mark.parametrize(
    "engine,first,then",
    [
        ("cartpole", 10_000, 100_000),
        ("sync", 6_000, 15_000),
        ("process", 3_000, 6_000),
        pytest.param("process", 20_000, 100_000, marks=pytest.mark.slow),
    ],
)
def test_memory_and_open_files_do_not_grow_with_steps(engine: str, first: int, then: int) -> None:
    """Over all processes of the training, evaluations among the steps."""
    code = """
import os, sys
from gymnast import PPO
def used():
    pages = files = 0
    for pid in (os.getpid(), *map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())):
        pages += int(open(f"/proc/{pid}/statm").read().split()[1])
        files += len(os.listdir(f"/proc/{pid}/fd"))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, files
engine, steps, more = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings = {"env.engine": engine, "env.n_envs": 8, "stop.on_solved": False}
settings |= {"eval.every": more // 10, "eval.episodes": 4}
model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, n_epochs=1, set=settings)
model.learn(steps)
first = used()
model.learn(more)
second = used()
print(second[0] - first[0], second[1] - first[1])
"""
    command = [sys.executable, "-c", code, engine, str(first), str(then)]
    ended = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    megabytes, files = map(float, ended.stdout.split()[-2:])
    assert megabytes < 10  # a leak of 100 to 1,700 bytes a step
    assert files == 0


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_an_env_that_leaks_files_is_named_and_its_run_can_go_on(engine: str, tmp_path: Path) -> None:
    """Nothing else can be opened any more in that process; that must not hide what happened."""
    settings = ("--set", f"env.engine={engine}", "--set", "eval.every=0", "--set", "stop.on_solved=false")
    command = ["train", "tests.envs_for_tests:test/Leaky-v0", *TINY, "--steps", "100000", *settings, "--quiet"]
    ended = subprocess.run(
        [sys.executable, "-m", "gymnast", *command, "--runs-dir", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400)),
    )
    assert ended.returncode == 1, ended.stderr
    assert "test/Leaky-v0: env" in ended.stderr
    assert "Too many open files: '/dev/null'" in ended.stderr
    assert "gymnast resume" in ended.stderr
    (run,) = run_command("runs", "list", "--json", "--runs-dir", tmp_path).json["runs"]
    assert run["status"] in ("crashed", "killed")  # the latter where not even that could be written


def test_eight_runs_that_start_at_once_are_eight_runs(tmp_path: Path) -> None:
    ended = warm.run_all([("train", "CartPole-v1", *TINY, "--quiet", "--json", "--runs-dir", tmp_path)] * 8)
    assert [process.returncode for process in ended] == [0] * 8
    results = [json.loads(process.stdout.splitlines()[-1]) for process in ended]
    assert len({result["run"] for result in results}) == 8
    assert len({result["eval_mean"] for result in results}) == 1  # one seed: nobody got another's numbers
    listed = run_command("runs", "list", "--json", "--runs-dir", tmp_path).json["runs"]
    assert [run["status"] for run in listed] == ["finished"] * 8
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {result["run"] for result in results}
    assert not list(tmp_path.rglob(f"*{TEMPORARY}"))


def test_of_two_processes_that_resume_a_run_at_once_one_does(trained: Trained, tmp_path: Path) -> None:
    copy = tmp_path / "runs" / trained.path.name
    shutil.copytree(trained.path, copy)
    shutil.copy2(copy / "checkpoints" / "step_512.safetensors", copy / "checkpoints" / "last.safetensors")
    ended = warm.run_all([("resume", copy.name, "--quiet", "--runs-dir", copy.parent)] * 2)
    errors = [process.stderr for process in ended]
    # The other one is refused while the first trains, or because that run is over by then
    assert sorted(process.returncode for process in ended) == [0, 2], errors
    assert "Traceback" not in "".join(errors)
    steps = [row["time/total_timesteps"] for row in read_metrics(copy / "metrics.jsonl")]
    assert steps == sorted(set(steps))
    assert steps[-1] == 1024


def test_a_folder_that_may_only_be_read(trained: Trained, tmp_path: Path) -> None:
    """What only reads goes on working; what writes says that it cannot."""
    runs_dir = tmp_path / "runs"
    shutil.copytree(trained.runs_dir, runs_dir)
    for path in (runs_dir, *runs_dir.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    mortal = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    if mortal and shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere")

    command = Warm(*mortal)

    def answer(*args: str) -> subprocess.CompletedProcess[str]:
        return command.run((*args, "--runs-dir", runs_dir), environment())

    first = trained.first.json["run"]
    try:
        for reads in (("runs", "list"), ("runs", "show", first), ("eval", first, "--episodes", "2")):
            ended = answer(*reads)
            assert ended.returncode == 0, ended.stderr
        writes = (("train", "CartPole-v1", *TINY), ("resume", first, "--steps", "2048"), ("report", first))
        for args in (*writes, ("runs", "delete", first, "--yes")):
            ended = answer(*args, "--quiet") if args[0] in ("train", "resume") else answer(*args)
            assert ended.returncode == 2, (args, ended.stdout, ended.stderr)
            assert ended.stderr.splitlines()[-1].startswith("gymnast: "), ended.stderr
            assert "Permission denied" in ended.stderr
            assert "Traceback" not in ended.stderr
    finally:
        for path in (runs_dir, *runs_dir.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
    assert sorted(path.name for path in runs_dir.iterdir()) == sorted(path.name for path in trained.runs_dir.iterdir())


# Every write to the disk takes a while, as on a network file system
SLOW_DISK = """
import os, time
synced = os.fsync
def fsync(handle):
    time.sleep(0.1)
    synced(handle)
os.fsync = fsync
"""


def test_a_slow_disk_changes_no_number(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_DISK)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    runs_dir = tmp_path / "runs"
    same = ("--seed", "1", "--set", "train.checkpoint_every=512", "--quiet", "--json", "--runs-dir", runs_dir)
    slow = run_command("train", "CartPole-v1", *TINY, *same, PYTHONPATH=path)
    assert slow.code == 0, slow.err
    assert slow.json["eval_mean"] == trained.first.json["eval_mean"]
    files = {file.name for file in (runs_dir / slow.json["run"] / "checkpoints").iterdir()}
    assert files == {file.name for file in (trained.path / "checkpoints").iterdir()}
