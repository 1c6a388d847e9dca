"""A page as data: headings, sentences, tables, charts. Written as Markdown here, as HTML by `html.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import quote

from gymnast.report.charts.model import Chart
from gymnast.report.charts.text import draw

WIDTH = 100  # columns of a text chart


@dataclass(frozen=True)
class Mono:
    """A command, a name of a file or a setting."""

    text: str


@dataclass(frozen=True)
class Bold:
    text: str


@dataclass(frozen=True)
class Link:
    text: str
    path: str  # relative to the run's folder


Inline = str | Mono | Bold | Link


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    parts: tuple[Inline, ...]


@dataclass(frozen=True)
class Code:
    """Lines as they are."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Items:
    lines: tuple[tuple[Inline, ...], ...]


@dataclass(frozen=True)
class Table:
    titles: tuple[str, ...]
    rows: tuple[tuple[Inline, ...], ...]
    right: tuple[int, ...] = ()  # columns of numbers
    in_text: tuple[int, ...] = ()  # columns that stand in for pictures: not where there are some


@dataclass(frozen=True)
class Video:
    path: str  # relative to the run's folder
    what: str


Block = Heading | Paragraph | Code | Items | Table | Video | Chart
Page = list[Block]


def say(*parts: Inline) -> Paragraph:
    return Paragraph(parts)


def markdown(page: Page, links: str = "") -> str:
    """`links`: the run's folder as seen from where the page will be."""
    return "\n\n".join(text for block in page if (text := _block(block, links))) + "\n"


def _block(block: Block, links: str) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {_escaped(block.text)}"
        case Paragraph():
            return _inline(block.parts, links)
        case Code():
            return _fenced(block.lines)
        case Items():
            return "\n".join(f"- {_inline(parts, links)}" for parts in block.lines)
        case Table():
            return table([[_inline((cell,), links) for cell in row] for row in block.rows], block.titles, block.right)
        case Video():
            return f"{_word(Link(block.path, block.path), links)}: {_escaped(block.what)}"
        case Chart():
            lines = draw(block, WIDTH) if block.in_text else []
            return _fenced([line.plain for line in lines]) if lines else ""
        case _:
            assert_never(block)


def _fenced(lines: Sequence[str]) -> str:
    """Inside a fence longer than any in the text."""
    longest = max((len(found) for line in lines for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def table(rows: Sequence[Sequence[str]], titles: Sequence[str], right: Sequence[int] = ()) -> str:
    """A Markdown table whose columns line up, so that a terminal shows it well too. `right`: columns of numbers."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(3, *(len(line[index]) for line in (titles, *rows))) for index in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            f"{cell:>{width}}" if index in right else f"{cell:<{width}}"
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * (width - 1) + ":" if index in right else "-" * width for index, width in enumerate(widths)]
    return "\n".join([line(titles), f"| {' | '.join(rule)} |", *(line(row) for row in rows)])


def _inline(parts: Sequence[Inline], links: str) -> str:
    return " ".join("".join(_word(part, links) for part in parts).split("\n"))


def _word(part: Inline, links: str) -> str:
    match part:
        case Mono():
            ticks = "`" * (max((len(found) for found in re.findall("`+", part.text)), default=0) + 1)
            pad = " " if "`" in part.text else ""
            return f"{ticks}{pad}{part.text}{pad}{ticks}"
        case Bold():
            return f"**{_escaped(part.text)}**"
        case Link():
            return f"[{_escaped(part.text)}]({quote(links + part.path)})"
        case str():
            return _escaped(part)
        case _:
            assert_never(part)


def _escaped(text: str) -> str:
    """What Markdown would take for markup or HTML; a word with underscores is none."""
    return re.sub(r"([\\`*<])", r"\\\1", text).replace("](", "]\\(")
