"""Processes that are measured: one request, one answer, a line of JSON each. Only one of them works at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gymnast.core.errors import UserError
from gymnast.terminal.format import output

OURS = [sys.executable, "-m", "gymnast.verbs.speed.worker"]
PATIENCE = 5.0  # seconds for a process to end on its own


class Worker:
    """A process at the other end of a line. Ctrl-C reaches only this end, which then ends the other."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, lives as long as the worker
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True, start_new_session=True
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        self.tell(request)
        return self.hear()

    def tell(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # why it is gone is told by whoever waits for its answer
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise UserError(f"{self.name}: its process ended with code {code}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UserError(f"{self.name}: {answer['error']}")
        return answer

    def wait(self) -> None:
        """Until it ends on its own."""
        self._process.wait()

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # which is how a worker knows that it is done
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        self._said.close()

    def kill(self) -> None:
        """With the processes it has started: they are one session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing."

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self.close()


class Bar:
    """How much is left to measure, on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None)

    def plan(self, seconds: float) -> None:
        """More to come."""
        total = self._progress.tasks[0].total or 0.0
        self._progress.update(self._task, total=total + seconds)

    def step(self, what: str) -> None:
        """Begins something."""
        self._progress.update(self._task, description=what)

    def done(self, seconds: float) -> None:
        """Something has ended that was planned to take this long."""
        self._progress.advance(self._task, seconds)

    def say(self, text: RenderableType) -> None:
        """A line above the bar, which stays."""
        self._progress.console.print(text)


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Bar]:
    console = output(stderr=True)
    console.quiet = quiet
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress)
