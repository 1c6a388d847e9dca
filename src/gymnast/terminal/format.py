"""What all printers share: one console, tables that fit it, headings and colours."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

UNLIMITED = 2000  # columns of a file or a pipe: nothing is cut or wrapped for a reader that is a program
READABLE = 110  # columns of a panel: wider ones are harder to read
GAP = 2
STATUS_STYLES = {
    "running": "bold cyan",
    "finished": "green",
    "interrupted": "yellow",
    "killed": "yellow",
    "crashed": "bold red",
    "damaged": "bold red",
}

Cell = str | Text


@dataclass(frozen=True)
class Column:
    title: str
    right: bool = False
    style: str = "default"
    drop: int = 0  # on a narrow terminal the highest goes first; 0: always shown
    wraps: int = 0  # may become this narrow and go over several lines; 0: never
    most: int | None = None  # prose: wider text goes over several lines in a file or a pipe, too


def right(*titles: str) -> list[Column]:
    """Columns of numbers."""
    return [Column(title, right=True) for title in titles]


class Output(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read it has enough (`| head -1`): the command decides what that means, not rich."""
        raise BrokenPipeError from None


def output(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else UNLIMITED
    return Output(stderr=stderr, width=width, highlight=False)


def panel_width(console: Console) -> int:
    return min(console.width, READABLE)


def table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Table:
    """A plain table. Where the terminal is too narrow whole columns are left out, instead of cutting all of them. The
    first column says which row is which: no text in another one, which may be of a stranger's file, takes its room."""
    cells = [[cell.copy() if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    for row in cells:
        for cell, column in zip(row, columns, strict=True):
            if not column.wraps:
                cell.truncate(console.width // 2, overflow="ellipsis")
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
            min_width=natural[index] if index == 0 else None,
            max_width=column.most,
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


def heading(text: str) -> Text:
    return Text(text, style="bold yellow")


def section(console: Console, title: str, *parts: RenderableType, soft_wrap: bool = False) -> None:
    """A heading and what belongs under it, if there is anything."""
    for part in ("", heading(title), *parts) if parts else ():
        console.print(part, soft_wrap=soft_wrap)


def look_at(console: Console, notes: Sequence[str]) -> None:
    """What a user should not overlook, if there is anything."""
    section(console, "look at", *(Text(f"! {note}", style="yellow") for note in notes))


def status_text(status: str) -> Text:
    return Text(status, style=STATUS_STYLES.get(status, "default"))


def yes_no(value: Any) -> Text:
    if value is None:
        return Text("")
    return Text("yes", style="bold green") if value else Text("no", style="dim")
