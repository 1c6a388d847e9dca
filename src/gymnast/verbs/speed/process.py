"""Our own process that is measured, and how much is left to measure. Only one process works at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gymnast.jobs.worker import Job, Worker
from gymnast.terminal.format import output


def our_worker() -> Worker:
    return Worker(Job("gymnast.verbs.speed.worker:measure"), name="gymnast")


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
