"""A library that is nothing but a command: one process for each thread setting, whose output reports its progress.

Only one process works at a time: it is stopped (SIGSTOP) when its window is over and goes on where it was in the next.
A stopped process cannot see that its parent is gone, so a guard sees it in its place and kills it.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError

STEPS = "{steps}"  # in the arguments: how long the run is
ENDLESS = 10**12  # steps of a run that is measured in windows: its schedules stay at their start
RUNNERS = Path(__file__).with_name("runners")
GUARD = Path(__file__).with_name("guard.py")
COMPILED = re.compile(r"^compiled in ([\d.]+) s$")  # what a runner prints that compiles before it trains


@dataclass(frozen=True)
class Command:
    """What an interpreter is started with, and what must be installed there."""

    arguments: tuple[str, ...]
    distribution: str
    needs: tuple[str, ...]  # modules
    progress: Callable[[str, int], int]  # env steps learned from after a line of output, given those before it


class Process:
    """The command at work, with all the processes it starts."""

    def __init__(
        self, name: str, arguments: list[str], folder: str, environment: Mapping[str, str], command: Command
    ) -> None:
        self.name, self.steps, self.last_words = name, 0, "it printed nothing."
        self.compile_seconds: float | None = None
        self._progress = command.progress
        self._process = subprocess.Popen(
            arguments,
            cwd=folder,  # it leaves files there
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reports: queue.SimpleQueue[tuple[float, int] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._worked = 0.0  # seconds since its last report that it was not stopped

    def _read(self) -> None:
        """Every report with the moment it came."""
        assert self._process.stdout is not None
        steps = 0
        for line in self._process.stdout:
            now, before = time.perf_counter(), steps
            steps = self._progress(line, before)
            if steps > before:
                self._reports.put((now, steps))
            elif found := COMPILED.match(line):
                self.compile_seconds = float(found[1])
            elif any(letter.isalnum() for letter in line):
                self.last_words = line.strip()
        self._reports.put(None)

    def report(self) -> tuple[float, int] | None:
        """The next one; None if it ended well."""
        found = self._reports.get()
        if found is None and (code := self._process.wait()):
            raise UserError(f"{self.name}: its command ended with code {code}: {self.last_words}")
        return found

    def window(self, seconds: float) -> dict[str, Any]:
        """From the report that ended the last window to the first one this much work later."""
        self._signal(signal.SIGCONT)
        began, at, before = time.perf_counter() - self._worked, 0.0, self.steps
        while self.steps == before or at - began < seconds:
            found = self.report()
            if found is None:
                raise UserError(f"{self.name}: its command ended before it was stopped: {self.last_words}")
            at, self.steps = found
        self._signal(signal.SIGSTOP)
        self._worked = time.perf_counter() - at
        compiled = {} if self.compile_seconds is None else {"compile_seconds": self.compile_seconds}
        return {"steps": self.steps - before, "seconds": at - began, **compiled}

    @property
    def group(self) -> int:
        """The process group that it and all the processes it starts are in."""
        return self._process.pid

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # whoever waits for its report learns why it is gone
            os.killpg(self.group, number)


class Commands(ExitStack):
    """Answers what `run_sb3.py` answers, for a library that takes no requests."""

    def __init__(self, name: str, python: str, command: Command, how_to_get: str, modules: Path | None = None) -> None:
        super().__init__()
        self.name, self._python, self._command, self._how_to_get = name, python, command, how_to_get
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if modules is not None:
            self._environment["PYTHONPATH"] = str(modules)
        self._running: dict[int | None, Process] = {}
        self._folder = self.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        guard = [sys.executable, "-IS", str(GUARD)]  # in a session of its own: no signal from a terminal reaches it
        self._guard = self.enter_context(subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True))
        self.callback(self._guard.kill)  # after an orderly end there is nothing for it to do

    def ready(self) -> dict[str, Any]:
        """Version and default threads. It starts when it is first asked."""
        probe = [self._python, str(RUNNERS / "probe.py"), self._command.distribution, *self._command.needs]
        found = subprocess.run(probe, cwd=self._folder, env=self._environment, capture_output=True, text=True)
        if found.returncode:
            said = found.stderr.strip().splitlines()
            raise UserError(f"{self.name}: {self._python} {said[-1] if said else 'fails'}. Run: {self._how_to_get}")
        return dict(json.loads(found.stdout.splitlines()[-1]))

    def ask(self, *, threads: int | None, **request: Any) -> dict[str, Any]:
        """A window of some `seconds`, or a whole run of some `steps`."""
        if "steps" in request:
            return self._once(threads, request["steps"])
        if threads not in self._running:
            self._running[threads] = self._start(threads, ENDLESS)
            self._running[threads].window(0.0)  # its first report: all is warm
        return self._running[threads].window(request["seconds"])

    def wait(self) -> None:
        """A whole run has ended by the time it is answered for."""

    def _start(self, threads: int | None, steps: int) -> Process:
        arguments = [self._python, *(word.replace(STEPS, str(steps)) for word in self._command.arguments)]
        limit = {} if threads is None else dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        process = Process(self.name, arguments, self._folder, self._environment | limit, self._command)
        self.callback(process.kill)
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{process.group}\n".encode())
        self._guard.stdin.flush()
        return process

    def _once(self, threads: int | None, steps: int) -> dict[str, Any]:
        process = self._start(threads, steps)
        first = process.report()
        at = time.time() - (time.perf_counter() - first[0] if first else 0.0)
        while process.report() is not None:
            pass
        return {"first_update_at": at, "threads": int(os.environ.get("OMP_NUM_THREADS", 0))}  # 0: nobody says
