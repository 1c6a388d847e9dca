"""A page as data: headings, sentences, tables, charts. Written as Markdown here, as HTML by `apps/report_html.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import quote

from gymnast.report.chart import Curve, chart, legend

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


@dataclass(frozen=True)
class Film:
    path: str  # relative to the run's folder
    what: str


@dataclass(frozen=True)
class Chart:
    """In text, or as a picture where there are any."""

    title: str
    curves: tuple[Curve, ...]
    level: float | None = None
    level_name: str | None = None
    in_text: bool = True  # False: pictures only, a line of the text's tables says as much
    small: bool = False


Block = Heading | Paragraph | Code | Items | Table | Film | Chart
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
            return _table(block, links)
        case Film():
            return f"{_word(Link(block.path, block.path), links)}: {_escaped(block.what)}"
        case Chart():
            return _chart(block) if block.in_text else ""
        case _:
            assert_never(block)


def _chart(block: Chart) -> str:
    lines = chart(block.curves, block.level, WIDTH)
    title = f"{block.title}{legend(block.curves, block.level_name, lines).plain}"
    return _fenced([title, *(line.plain for line in lines)]) if lines else ""


def _fenced(lines: Sequence[str]) -> str:
    """Inside a fence longer than any in the text."""
    longest = max((len(found) for line in lines for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def _table(block: Table, links: str) -> str:
    """Columns line up, so that a terminal shows a table too."""
    rows = [[_inline((cell,), links).replace("|", "\\|") for cell in row] for row in block.rows]
    lines = [list(block.titles), *rows]
    widths = [max(3, *(len(line[index]) for line in lines)) for index in range(len(block.titles))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            f"{cell:>{width}}" if index in block.right else f"{cell:<{width}}"
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * (width - 1) + ":" if index in block.right else "-" * width for index, width in enumerate(widths)]
    return "\n".join([line(block.titles), f"| {' | '.join(rule)} |", *(line(row) for row in rows)])


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
