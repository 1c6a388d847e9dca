"""The journal of an autotuning: JSON lines that it can go on from, and a page for people.

    runs/autotune/NAME/
      journal.jsonl   start, begin and segment (a stretch of training), decision, end
      journal.md      the same as a table
      config.yaml     the settings that were kept, for `gymnast train`

The tuning is a function of what its segments report. To go on after a kill it runs again from the start, and a segment
that the journal knows is not trained again. One that was begun and not finished goes on from its run's last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.files import numbers_to_json, open_to_append, parse_json, read_bytes, write_atomic
from gymnast.runs.lock import RunLock

Line = dict[str, Any]


class Journal:
    """`recall` what was done before, line by line in the same order; `write` what is new."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.path = folder, folder / "journal.jsonl"
        self._lock = RunLock(folder / "lock")
        if not self._lock.acquire():
            raise UserError(f"{folder}: another process is autotuning it. Wait for it, or stop it first.")
        self.lines = self._read()
        self._next = 0

    def _read(self) -> list[Line]:
        """Whole lines; a kill may have cut the last one. An old `end` is not one any more."""
        if not self.path.exists():
            return []
        raw = read_bytes(self.path)
        lines = []
        for text in raw.splitlines(keepends=True):
            try:
                line = parse_json(text)
            except ValueError:
                break
            if not text.endswith(b"\n") or not isinstance(line, dict):
                break
            lines.append((text, line))
        kept = [(text, line) for text, line in lines if line.get("kind") != "end"]
        if sum(len(text) for text, _ in kept) < len(raw):
            write_atomic(self.path, b"".join(text for text, _ in kept))
        return [line for _, line in kept]

    @property
    def is_new(self) -> bool:
        return not self.lines

    @property
    def recalling(self) -> bool:
        """Whether the next line is known already."""
        return self._next < len(self.lines)

    def recall(self, kind: str, same: Callable[[Line], bool] = lambda line: True) -> Line | None:
        """The next line of the journal if it is there; UserError where it is not what is done now."""
        if not self.recalling:
            return None
        line = self.lines[self._next]
        if line.get("kind") != kind or not same(line):
            raise UserError(
                f"{self.path}: line {self._next + 1} does not fit this command or this version. "
                f"Delete {self.folder} to begin again."
            )
        self._next += 1
        return line

    def write(self, kind: str, **facts: Any) -> Line:
        line: Line = numbers_to_json({"kind": kind, **facts})
        with open_to_append(self.path) as file:
            file.write(json.dumps(line, allow_nan=False, default=str).encode() + b"\n")
        self.lines.append(line)
        self._next = len(self.lines)
        return line

    def forget_last(self) -> None:
        """The last line was begun for nothing: no checkpoint was written."""
        del self.lines[-1]
        self._next = len(self.lines)
        write_atomic(self.path, b"".join(json.dumps(line).encode() + b"\n" for line in self.lines))

    def once(self, kind: str, **facts: Any) -> None:
        """Writes a line that follows from those before it, unless it is there."""
        if self.recall(kind) is None:
            self.write(kind, **facts)

    def close(self) -> None:
        self._lock.release()
