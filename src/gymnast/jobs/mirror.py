"""A folder that is written on one machine and copied to another while it grows.

Whoever copies keeps a `Known`: what it has of each file. The other side answers with what differs. Files that are only
ever appended to send their new end; every other file is sent as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gymnast.core.errors import UserError
from gymnast.core.files import TEMPORARY, write_atomic

GROWING = (".jsonl", ".txt")
LOCAL = ("lock", "stopping", "heartbeat.json")  # files that mean something on one machine only
FIRST = "checkpoints"  # read before anything else: rows of metrics are then never older than the checkpoint

Stamp = tuple[int, int, int]  # inode, time of the last change, size
Known = dict[str, Stamp]


class Change(NamedTuple):
    """What is new of one file: `data` from `begin` on, or None where the file is gone."""

    path: str
    stamp: Stamp
    begin: int
    data: bytes | None


def stamps(folder: Path) -> Known:
    """What somebody knows who has all of it."""
    return {change.path: change.stamp for change in changes(folder, {})}


def changes(folder: Path, known: Known) -> list[Change]:
    """What somebody who has `known` is missing, in the order in which it may be applied."""
    found: list[Change] = []
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if _counts(path)}
    for name in sorted(there, key=lambda name: FIRST not in name):
        if (change := _change(name, there[name], known.get(name))) is not None:
            found.append(change)
    gone = [Change(name, known[name], 0, None) for name in known.keys() - there.keys()]
    return [*reversed(found), *gone]


def apply(folder: Path, changes: Iterable[Change], known: Known) -> None:
    """Writes them into `folder`, each file in one step, and notes them in `known`."""
    for change in changes:
        path = folder / _inside(change.path)
        if change.data is None:
            path.unlink(missing_ok=True)
            known.pop(change.path, None)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if change.begin:
            with open(path, "r+b") as file:
                file.seek(change.begin)
                file.write(change.data)
        else:
            write_atomic(path, change.data)
        known[change.path] = change.stamp


def begin_of(name: str, known: Stamp | None, stamp: Stamp) -> int:
    """The first byte that is new: behind the known ones, where a file has only been appended to."""
    if known is None or not name.endswith(GROWING) or known[0] != stamp[0] or known[2] > stamp[2]:
        return 0
    return known[2]


def _counts(path: Path) -> bool:
    return path.is_file() and path.suffix != TEMPORARY and path.name not in LOCAL


def _change(name: str, path: Path, known: Stamp | None) -> Change | None:
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            stamp = (about.st_ino, about.st_mtime_ns, about.st_size)
            if stamp == known:
                return None
            begin = begin_of(name, known, stamp)
            file.seek(begin)
            return Change(name, stamp, begin, file.read(stamp[2] - begin))
    except FileNotFoundError:  # replaced or removed just now: the next time
        return None


def _inside(name: str) -> PurePosixPath:
    """A path from another machine: never outside the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(f"a file named {name!r} is refused: it would be written outside its folder.")
    return path
