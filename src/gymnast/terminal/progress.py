"""A bar on the terminal, for verbs that take long."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from rich import progress as rich_progress
from rich.console import RenderableType
from rich.text import Text

from gymnast.core.text import duration
from gymnast.terminal.format import Column, output, table
from gymnast.verbs.progress import Progress

EVERY = 30.0  # seconds between two lines where there is no terminal


class BarAndTable(rich_progress.Progress):
    """A table above the bar, where there is one."""

    shown: RenderableType | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.shown is not None:
            yield self.shown
        yield from super().get_renderables()


class Bar(Progress):
    """Moves by itself, in a thread of rich's, whatever the work is doing."""

    def __init__(self, progress: BarAndTable) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None)

    def plan(self, amount: float) -> None:
        total = self._progress.tasks[0].total or 0.0
        self._update(total=total + amount)

    def step(self, what: str) -> None:
        self._update(description=what)

    def done(self, amount: float = 1.0) -> None:
        self._update(advance=amount)

    def say(self, text: str, failed: bool = False) -> None:
        self._progress.console.print(Text(text, style="red" if failed else "default"))

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        console = self._progress.console
        self._progress.shown = table(
            console, [Column(title, wraps=40 * (title == "settings")) for title in titles], rows
        )

    def _update(self, total: float | None = None, advance: float | None = None, description: str | None = None) -> None:
        self._progress.update(self._task, total=total, advance=advance, description=description)


@contextmanager
def progress_bar(quiet: bool = False, after: float = 0.0) -> Iterator[Bar]:
    """On standard error: a bar where it is a terminal, `after` so many seconds, else a line every half minute; lines of
    `say` everywhere, nothing when quiet."""
    console = output(stderr=True)
    console.quiet = quiet
    text, times = rich_progress.TextColumn, (rich_progress.TimeElapsedColumn(), rich_progress.TimeRemainingColumn())
    columns = (text("{task.description}"), rich_progress.BarColumn(), *times)
    hidden = quiet or not console.is_terminal
    progress = BarAndTable(*columns, console=console, transient=True, disable=hidden)
    bar, ended = Bar(progress), threading.Event()

    def show() -> None:
        if not console.is_terminal:
            began = perf_counter()
            while not ended.wait(EVERY):
                console.print(_line(progress.tasks[0], perf_counter() - began), markup=False)
        elif not ended.wait(after):
            progress.start()

    shower = threading.Thread(target=show, daemon=True)
    shower.start()
    try:
        yield bar
    finally:
        ended.set()
        shower.join()  # it may be starting the bar right now
        progress.stop()


def _line(task: rich_progress.Task, elapsed: float) -> str:
    """evaluating: 45 %, 1:30"""
    share = f": {100 * task.completed / task.total:.0f} %" if task.total else ""
    return f"{task.description}{share}, {duration(elapsed)}"
