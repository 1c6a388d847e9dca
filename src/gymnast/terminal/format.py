"""How the display verbs write: one console, tables that fit it, and one way to say numbers, times and settings."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

UNLIMITED = 2000  # columns of a file or a pipe: nothing is cut or wrapped for a reader that is a program
READABLE = 110  # columns of a panel: wider ones are harder to read
GAP = 2
SILENT_SECONDS = 2.0  # before a bar shows that something is under way
STATUS_STYLES = {
    "running": "bold cyan",
    "finished": "green",
    "interrupted": "yellow",
    "killed": "yellow",
    "crashed": "bold red",
}

Cell = str | Text


@dataclass(frozen=True)
class Column:
    title: str
    right: bool = False
    style: str = "default"
    drop: int = 0  # on a narrow terminal the highest goes first; 0: always shown
    wraps: int = 0  # may become this narrow and go over several lines; 0: never


def output(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else UNLIMITED
    return Console(stderr=stderr, width=width, highlight=False)


def panel_width(console: Console) -> int:
    return min(console.width, READABLE)


def table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Table:
    """A plain table. Where the terminal is too narrow whole columns are left out, instead of cutting all of them."""
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    natural = [
        max([len(column.title), *(row[index].cell_len for row in cells)]) for index, column in enumerate(columns)
    ]
    needed = [
        min(width, column.wraps) if column.wraps else width for column, width in zip(columns, natural, strict=True)
    ]
    shown = list(range(len(columns)))
    while sum(needed[index] + GAP for index in shown) - GAP > console.width:
        droppable = [index for index in shown if columns[index].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda index: columns[index].drop))
    result = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_edge=False)
    for index in shown:
        column = columns[index]
        result.add_column(
            column.title,
            justify="right" if column.right else "left",
            style=column.style,
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for row in cells:
        result.add_row(*(row[index] for index in shown))
    return result


def facts_grid(rows: Sequence[tuple[str, Cell]]) -> Table:
    """Names and what is said of them, one a line; what is empty is left out."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold", max_width=READABLE)  # prose, hard to read in one long line
    for name, said in rows:
        if said:
            grid.add_row(name, Text(said) if isinstance(said, str) else said)
    return grid


@contextmanager
def patience(steps: int) -> Iterator[Callable[[], None]]:
    """Shows a bar on a terminal once the work takes longer than a moment."""
    console = output(stderr=True)
    columns = (TextColumn("stepping"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = progress.add_task("stepping", total=steps)
    begin = time.monotonic()

    def tick() -> None:
        progress.advance(task)
        if not progress.live.is_started and time.monotonic() - begin > SILENT_SECONDS:
            progress.start()

    try:
        yield tick
    finally:
        progress.stop()


def heading(text: str) -> Text:
    return Text(text, style="bold yellow")


def status_text(status: str) -> Text:
    return Text(status, style=STATUS_STYLES.get(status, "default"))


def yes_no(value: Any) -> Text:
    if value is None:
        return Text("")
    return Text("yes", style="bold green") if value else Text("no", style="dim")


def number(value: Any, digits: int = 2) -> str:
    """1234.5 -> 1,234.50; whole numbers without a fraction; nothing for None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.{digits}f}"


def score(value: Any) -> str:
    """Always with two decimals, so that a column of them lines up."""
    return f"{value:,.2f}" if isinstance(value, int | float) and math.isfinite(value) else ""


def span(low: float | None, high: float | None) -> str:
    """A range; an end that is unknown or infinite is left open."""
    low = None if low is not None and not math.isfinite(low) else low
    high = None if high is not None and not math.isfinite(high) else high
    if low is None and high is None:
        return "unbounded"
    if low is None:
        return f"up to {high:g}"
    if high is None:
        return f"{low:g} and more"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def ago(moment: str) -> str:
    """How long ago an ISO 8601 time was; nothing for what is no time."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def setting(value: Any) -> str:
    """A setting as it would stand in YAML, in one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(setting(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {setting(item)}' for key, item in value.items())}}}"
    return str(value)
