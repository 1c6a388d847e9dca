"""metrics.jsonl: one row a line, the truth that everything else mirrors. NaN is the string "NaN" (see files.py)."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.files import (
    FULL,
    number_from_json,
    number_to_json,
    open_to_append,
    parse_json,
    read_bytes,
    write_atomic,
)
from gymnast.core.typed import MOST
from gymnast.metrics.rows import STEP
from gymnast.sinks.base import RunInfo, Sink

LARGEST_TABLE, LARGEST_LINE = 256 << 20, 1 << 20  # bytes


class LineSink(Sink):
    """Appends. Each line goes to the system in one write, so a killed process leaves at most one half line. What a full
    disk does not take waits for the next line."""

    def _open(self, path: Path) -> None:
        self._file, self._waiting = open_to_append(path), b""

    def _append(self, line: bytes) -> None:
        self._waiting += line + b"\n"
        self._flush()

    def _flush(self) -> None:
        try:
            written = self._file.write(self._waiting) or 0
        except OSError as error:
            if error.errno not in FULL:
                raise
            written = 0
        self._waiting = self._waiting[written:]

    def close(self) -> None:
        try:
            self._flush()
            if self._waiting:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file.name))
        finally:
            self._file.close()


class JsonlSink(LineSink):
    def __init__(self, info: RunInfo) -> None:
        _drop_half_line(info.metrics_path)
        self._open(info.metrics_path)

    def write(self, step: int, row: dict[str, float]) -> None:
        numbers = {name: number_to_json(value) for name, value in {STEP: step, **row}.items()}
        self._append(json.dumps(numbers, separators=(",", ":"), allow_nan=False).encode())

    @staticmethod
    def truncate(path: str | Path, max_env_steps: int) -> None:
        """Forgets lines later than the checkpoint a run is resumed from, and a half-written last one."""
        path = Path(path)
        if not os.path.lexists(path):
            return
        lines = [line for line, data in _lines(path) if data and _step(data) <= max_env_steps]
        write_atomic(path, b"".join(line.rstrip() + b"\n" for line in lines))


def read_metrics(path: str | Path) -> list[dict[str, float]]:
    return read_rows(path)[0]


def read_rows(path: str | Path) -> tuple[list[dict[str, float]], int]:
    """All rows, oldest first, and how many lines are none; no file is no rows. UserError: it cannot be read.

    A half-written last line is nothing unusual and not counted.
    """
    return rows_of(_bytes(Path(path)))


def rows_of(raw: bytes) -> tuple[list[dict[str, float]], int]:
    """The same of a part of the file."""
    rows, damaged = [], 0
    for line, data in _parsed(raw):
        try:
            row = {name: number_from_json(value) for name, value in (data or {}).items()}
            if not data or not all(0 <= row[name] <= MOST for name in row if name.endswith("/step")):
                raise ValueError("no row of ours")
            rows.append(row)
        except ValueError:
            damaged += line.endswith(b"\n")
    return rows, damaged


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines as they are, of a file like metrics.jsonl or diagnostics.jsonl."""
    return [data for _, data in _lines(path) if data]


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """With what each of them says, if it is an object with a step; of a file that may not be there."""
    yield from _parsed(_bytes(path))


def _bytes(path: Path) -> bytes:
    if not os.path.lexists(path):
        return b""
    try:
        return read_bytes(path, LARGEST_TABLE)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


def _parsed(raw: bytes) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    for line in raw.splitlines(keepends=True):
        try:
            data = parse_json(line) if len(line) < LARGEST_LINE else None
        except ValueError:
            data = None  # cut by a kill or a full disk
        yield line, data if isinstance(data, dict) and 0 <= _step(data) <= MOST else None


def _step(data: dict[str, Any]) -> float:
    try:
        return number_from_json(data.get(STEP))
    except ValueError:
        return math.nan


def _drop_half_line(path: Path) -> None:
    """A new row must not be glued to half of an old one."""
    if path.is_file():
        data = read_bytes(path, LARGEST_TABLE)
        if data and not data.endswith(b"\n"):
            write_atomic(path, data[: data.rfind(b"\n") + 1])
