"""Numbers, times and settings in words, the same in every table, page and message; bars and curves in one line."""

from __future__ import annotations

import math
import os
import re
import shlex
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

EIGHTHS = ["", *"▏▎▍▌▋▊▉█"]  # of a column, from the left
HEIGHTS = "▁▂▃▄▅▆▇█"
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # this package, whose places tell users nothing
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


LONGEST = 10_000  # characters of a text from a file, and of an answer


def printable(text: str) -> str:
    """Text from outside as a terminal may get it: escape sequences and the like as their codes, and not endless."""
    text = cut(text, LONGEST)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines; colours are taken out of it."""
    return "\n".join(map(printable, COLOUR.sub("", text).splitlines()))


def plain_warnings() -> None:
    """From here on this process shows each warning in a line of its own, as a terminal may get it."""

    def one_line(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        text = " ".join(printable_lines(str(message)).split())
        place = "" if filename.startswith(HERE) else f" ({printable(filename)}, line {lineno})"
        return f"gymnast: warning: {text}{place}\n"

    warnings.formatwarning = one_line


def setting(value: Any) -> str:
    """A setting in one line of YAML, as a user writes it after --set."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(setting(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {setting(item)}' for key, item in value.items())}}}"
    if isinstance(value, str) and (value in ("", "null", "true", "false") or _is_number(value)):
        return f"'{value}'"
    return str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def words_of(command: str) -> list[str]:
    """A command as a shell splits it; no words of a text that is no command."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def assignment(key: str, value: Any) -> str:
    """A setting in a few letters: sections whose keys speak for themselves are left out."""
    section, _, rest = key.replace("total_timesteps", "steps").partition(".")
    shown = rest if section in ("algo", "agent", "train") else key.removeprefix("env.kwargs.")
    return f"{shown}={cut(setting(value), 30)}"


def cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def number(value: Any, digits: int | None = None) -> str:
    """As many decimals as say something: 0.744, 7.93, 487.2, 100,096; or `digits`, but none for a whole number.

    Nothing for what is no number.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if not math.isfinite(value):
        return str(value)
    if float(value).is_integer():
        digits = 0
    elif digits is None:
        digits = 3 if abs(value) < 1 else 2 if abs(value) < 100 else 1
    return f"{value:,.{digits}f}"


def score(value: Any) -> str:
    """Always with two decimals, so that a column of them lines up."""
    return f"{value:,.2f}" if isinstance(value, int | float) and math.isfinite(value) else ""


def or_never(value: float | None, text: Callable[[float], str] = number) -> str:
    """Of something that may never have been reached: infinity."""
    return "" if value is None else "never" if math.isinf(value) else text(value)


def duration(seconds: float) -> str:
    """75 -> 1:15, 3675 -> 1:01:15."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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


def utc(moment: str) -> str:
    """An ISO 8601 time to the second."""
    return f"{moment[:19].replace('T', ' ')} UTC"


def span(low: float | None, high: float | None) -> str:
    """A range; an end that is unknown or infinite is left open."""
    low, high = (None if end is None or not math.isfinite(end) else end for end in (low, high))
    if low is None and high is None:
        return "unbounded"
    if low is None:
        return f"up to {high:g}"
    if high is None:
        return f"{low:g} and more"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def bar(share: float, width: int) -> str:
    """A share of the width in eighths of a column; a share above zero is always visible. Shares come from files: what
    is no number or below 0 is drawn as nothing, more than all as all."""
    if not share > 0:
        return ""
    eighths = max(round(8 * width * min(share, 1.0)), 1)
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8]


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as `width` blocks: each the mean of its stretch of them, the lowest block the lowest mean."""
    return blocks(values, width, 1)[0]


def blocks(values: Sequence[float], width: int, height: int) -> list[str]:
    """The same, that many lines high, the top one first; of nothing: empty lines."""
    points = [value for value in values if math.isfinite(value)]
    if not points:
        return [""] * height
    cuts = [index * len(points) // width for index in range(width + 1)]
    stretches = [points[a : max(b, a + 1)] for a, b in pairwise(cuts)]
    means = [sum(stretch) / len(stretch) for stretch in stretches]
    low, high = min(means), max(means)
    top, range_ = len(HEIGHTS) * height - 1, high - low
    levels = [1 + (round((mean - low) / range_ * top) if high > low else 0) for mean in means]
    columns = ("".join((" " + HEIGHTS)[min(max(level - 8 * row, 0), 8)] for level in levels) for row in range(height))
    return list(columns)[::-1]
