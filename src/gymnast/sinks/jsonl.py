"""metrics.jsonl: one row a line, the truth that everything else mirrors. NaN is the string "NaN" (see files.py)."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from gymnast.core.files import number_from_json, number_to_json, write_atomic
from gymnast.metrics.rows import STEP
from gymnast.sinks.base import RunInfo, Sink


class LineSink(Sink):
    """Appends. Each line goes to the system in one write, so a killed process leaves at most one half line."""

    def _open(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def _append(self, line: bytes) -> None:
        if self._file.write(line + b"\n") <= len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file.name))

    def close(self) -> None:
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
        if not path.exists():
            return
        lines = [line for line, data in _lines(path) if data.get(STEP, 0) <= max_env_steps]
        write_atomic(path, b"".join(lines))


def read_metrics(path: str | Path) -> list[dict[str, float]]:
    """All rows, oldest first; no file is no rows, and a half-written last line is left out."""
    rows = []
    for _, data in _lines(Path(path)) if Path(path).exists() else []:
        try:
            rows.append({name: number_from_json(value) for name, value in data.items()})
        except (ValueError, TypeError):
            continue  # no row of ours
    return rows


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines as they are, of a file like metrics.jsonl or diagnostics.jsonl."""
    return [data for _, data in _lines(path)] if path.exists() else []


def _lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    pairs = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            data = json.loads(line)
        except ValueError:
            continue  # cut by a kill or a full disk
        if isinstance(data, dict):
            pairs.append((line if line.endswith(b"\n") else line + b"\n", data))
    return pairs


def _drop_half_line(path: Path) -> None:
    """A new row must not be glued to half of an old one."""
    if path.is_file():
        data = path.read_bytes()
        if data and not data.endswith(b"\n"):
            write_atomic(path, data[: data.rfind(b"\n") + 1])
