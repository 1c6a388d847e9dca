"""The one worker protocol: JSON and tensors there, answers back, no process that outlives its parent unasked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from gymnast.core.errors import Lost, UserError
from gymnast.core.registry import LAUNCHERS
from gymnast.jobs import child
from gymnast.jobs.pool import run_all
from gymnast.jobs.worker import LOWEST_PRIORITY, Event, Job, Worker, WorkerLost, how_it_ended
from tests.processes import is_alive, wait_for

ROOT = Path(__file__).parents[2]
LIMIT = 60.0  # seconds for anything a test waits for


def job(work: str, **arguments: Any) -> Job:
    return Job(f"tests.jobs_for_tests:{work}", arguments, packages=("tests",))


def test_jobs_tensors_and_results() -> None:
    with Worker(job("calculate", factor=3.0)) as worker:
        assert not worker.free
        assert worker.ready() == {"factor": 3.0}
        assert worker.free
        assert worker.hear() is None  # nothing to say, and nobody waits
        tensors = {"a": torch.arange(5.0), "b": torch.ones(100_000, dtype=torch.float64)[::2]}
        worker.give({"number": 7}, tensors)
        assert not worker.free
        # 3 * (0 + 1 + 2 + 3 + 4) and 3 * 50,000; what the worker prints is no answer
        assert worker.wait_for("result") == {"a": 30.0, "b": 150_000.0, "negative": -7}
        assert worker.free
        assert worker.ask(number=1.5) == {"negative": -1.5}  # tensors are optional


def test_events_come_before_the_result() -> None:
    with Worker(job("double", number=4)) as worker:
        first, last = worker.hear(LIMIT), worker.hear(LIMIT)
    assert first is not None
    assert last is not None
    assert (first.kind, first.data["number"]) == ("event", 4)
    assert (last.kind, last.data["double"]) == ("result", 8)


def test_what_a_worker_finds() -> None:
    """A process group of its own, so that Ctrl-C is for this process; the same modules; no input to wait for."""
    with Worker(job("surroundings"), niceness=LOWEST_PRIORITY, threads=1) as worker:
        found = worker.wait_for("result")
    assert found["group"] == found["pid"] == worker.pid
    assert found["parent"] == os.getpid()
    assert found["niceness"] == LOWEST_PRIORITY
    assert found["threads"] == "1"
    assert found["input"] == ""
    assert {path for path in sys.path if path} <= set(found["path"])
    assert str(Path(child.__file__).parent) not in found["path"]  # `pool` is another module for other people


@pytest.mark.parametrize(
    "how, why",
    [
        ("mistake", "it: env.id: no such env."),
        ("env", "it: Crashing-v0: env 0 crashed in step. RuntimeError: the gearbox is on fire"),
        ("other", "it: ConnectionError: the server is down"),
        ("kill", "it: its process was killed by signal 9 (SIGKILL)"),
        ("exit", "it: its process ended with exit code 7: these are my last words"),
    ],
)
def test_how_it_ended_is_said_in_a_line(how: str, why: str) -> None:
    with Worker(job("fail", how=how), name="it") as worker, pytest.raises(WorkerLost) as lost:
        worker.ask(number=1)
    assert str(lost.value) == why


def test_a_log_keeps_what_was_printed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    with (
        Worker(job("fail", how="other"), log=tmp_path / "log") as worker,
        pytest.raises(WorkerLost, match=r"^ConnectionError: the server is down$"),
    ):
        worker.ready()
    log = (tmp_path / "log").read_text()
    assert log.startswith("before\n")
    assert "and has more to say" in log


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(WorkerLost, match="could not be started: No such file"):
        Worker(Job("gymnast.jobs.child:serve", python="/no/such/python"))


@pytest.mark.parametrize("work", ["os:system", "gymnastics.core:x", "gymnast.core", "/etc/passwd.py:x", "tests.x:y"])
def test_only_our_own_functions_are_work(work: str) -> None:
    with pytest.raises(UserError, match="must be 'module:function' inside gymnast"):
        Job(work)


def test_a_bare_interpreter_can_work(tmp_path: Path) -> None:
    """By path, without a package: nothing but the standard library is imported before the work is."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    runner = ROOT / "src" / "gymnast" / "verbs" / "speed" / "libraries" / "runners" / "run_sb3.py"
    with Worker(Job(f"{runner}:windows", python=str(bare))) as worker, pytest.raises(WorkerLost, match="cannot import"):
        worker.ready()


@pytest.mark.parametrize("code, said", [(0, "ended with exit code 0"), (-15, "was killed by signal 15 (SIGTERM)")])
def test_exit_codes_in_words(code: int, said: str) -> None:
    assert how_it_ended(code) == said


PARENT = """
import os, signal, sys, time
from pathlib import Path
from gymnast.jobs.worker import Job, Worker
work, file = sys.argv[1:]
worker = Worker(Job(f"tests.jobs_for_tests:{work}", {"file": file}, packages=("tests",)), outlives=work == "finish")
if work == "finish":
    for number in range(3):
        worker.give({"number": number})
else:
    worker.ready()
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_parent_of(work: str, file: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PARENT, work, str(file)], cwd=ROOT, check=False, timeout=LIMIT)
    assert done.returncode == -signal.SIGKILL


def test_a_worker_ends_with_its_parent_in_the_middle_of_work(tmp_path: Path) -> None:
    kill_a_parent_of("sleep", tmp_path / "pid")
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not is_alive(pid), "end")


def test_a_worker_that_outlives_its_parent_finishes(tmp_path: Path) -> None:
    kill_a_parent_of("finish", tmp_path / "out")
    wait_for(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text().endswith("end\n"), "last line")
    assert (tmp_path / "out").read_text() == "0\n1\n2\nend\n"


def test_closing_ends_a_worker_at_once(tmp_path: Path) -> None:
    with Worker(job("sleep", file=str(tmp_path / "pid"))) as worker:
        worker.ready()
    assert worker.wait() == -signal.SIGKILL
    worker.close()  # twice is fine


def test_env_processes_end_with_their_parent_in_the_middle_of_a_step() -> None:
    with Worker(job("hang_in_an_env")) as worker:
        pids = worker.wait_for("event")["pids"]
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)
        os.kill(worker.pid, signal.SIGKILL)  # it alone: nobody closes its envs
        wait_for(lambda: not any(is_alive(pid) for pid in pids), "end")


# Pool and launchers


def test_a_pool_runs_so_many_at_once() -> None:
    jobs = {number: job("double", number=number) for number in range(5)}
    launcher = LAUNCHERS.get("local")()
    begun, ended, most = [], [], 0
    for number, event in run_all(list(jobs), 2, lambda number: launcher.run(jobs[number])):
        if event.kind == "event":
            begun.append(number)
        else:
            assert event == Event("result", {"double": 2 * number})
            ended.append(number)
        most = max(most, len(begun) - len(ended))
    assert sorted(begun) == sorted(ended) == list(range(5))
    assert most <= 2


def test_a_job_that_fails_does_not_stop_the_others() -> None:
    jobs = {"bad": job("fail", how="mistake"), "worse": job("fail", how="kill"), "good": job("double", number=1)}
    launcher = LAUNCHERS.get("local")()
    ends = dict(run_all(list(jobs), 1, lambda name: launcher.run(jobs[name])))
    assert list(ends) == ["bad", "worse", "good"]
    assert ends["bad"] == Event("error", {"why": "env.id: no such env."})
    assert ends["worse"].data["why"] == "its process was killed by signal 9 (SIGKILL)"
    assert ends["good"].kind == "result"


def test_a_launcher_that_breaks_does_not_hang_the_pool() -> None:
    class Broken:
        def __init__(self, *events: Event) -> None:
            self.events = events

        def __iter__(self) -> Any:
            yield from self.events
            raise OSError("no route to host")

        def close(self) -> None: ...

    runs = {"raises": Broken(Event("event", {})), "raises late": Broken(Event("result", {}))}
    found = [(name, event.kind, event.data) for name, event in run_all(list(runs), 1, runs.__getitem__)]
    assert found == [
        ("raises", "event", {}),
        ("raises", "error", {"why": "OSError: no route to host"}),
        ("raises late", "error", {"why": "OSError: no route to host"}),
    ]


def test_a_place_that_is_lost_ends_the_pool() -> None:
    """Every other job would fail in the same way: they are closed, and no further one is started."""
    closed, started = threading.Event(), []

    class Gone:
        def __init__(self, name: str) -> None:
            started.append(name)
            self.waits = name == "first"

        def __iter__(self) -> Any:
            if self.waits:
                assert closed.wait(60)
            raise Lost("the cluster is lost")
            yield

        def close(self) -> None:
            closed.set()

    with pytest.raises(Lost, match="the cluster is lost"):
        list(run_all(["first", "second", "third"], 2, Gone))
    assert started == ["first", "second"]


def test_ctrl_c_while_a_pool_starts_a_job_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that listens to the job has not begun yet, and cannot be waited for."""
    closed: list[str] = []

    class Silent:
        def __iter__(self) -> Any:
            return iter(())

        def close(self) -> None:
            closed.append("it")

    def interrupt(thread: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gymnast.jobs.pool.Thread.start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(run_all(["it"], 1, lambda name: Silent()))
    assert closed == ["it"]


def test_leaving_a_pool_ends_its_jobs(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(4)]
    launcher = LAUNCHERS.get("local")()
    with closing(run_all(files, 2, lambda file: launcher.run(job("sleep", file=str(file))))) as events:
        there = {next(events)[0], next(events)[0]}  # both say that they are ready
    assert there == set(files[:2])
    assert not any(is_alive(int(file.read_text())) for file in there)
    assert not files[2].exists()
