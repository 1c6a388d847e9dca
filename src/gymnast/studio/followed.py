"""A run that is read while it grows: only what is new in its files is read."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gymnast.core.files import open_regular
from gymnast.metrics.catalogue import catalogue
from gymnast.metrics.rows import STEP
from gymnast.report.run_facts import RunFacts
from gymnast.runs.heartbeat import read_heartbeat
from gymnast.runs.references import Run, RunInfo
from gymnast.sinks.jsonl import LARGEST_TABLE, rows_of

LATE = 5.0  # seconds without a heartbeat, after which a page says so; it comes every second
RECENT = 20  # rows that the speed of a run is measured on
STALE = ("alerts", "written_at", "worth_a_look", "time_budget")  # of RunFacts, when there is more to read


class Tail:
    """The rows of a metrics.jsonl. `generation` counts how often it was replaced by another file, as `resume` does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at, self._inode = 0, 0
        self.rows: list[dict[str, float]] = []
        self.latest: dict[str, float] = {}
        self.generation = 0

    def read(self) -> bool:
        """Whether there was more. A half-written last line waits for its other half."""
        try:
            with open_regular(self._path) as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._inode or about.st_size < self._at:
                    self.generation += self._inode != 0
                    self._inode, self._at = about.st_ino, 0
                    self.rows.clear()
                    self.latest.clear()
                file.seek(self._at)
                raw = file.read(LARGEST_TABLE)
        except OSError:
            return False
        raw = raw[: raw.rfind(b"\n") + 1]
        if not raw:
            return False
        self._at += len(raw)
        rows, _ = rows_of(raw)
        self.rows += rows
        for row in rows:
            self.latest.update({name: value for name, value in row.items() if name in catalogue()})
        return bool(rows)


class FollowedRun(RunFacts):
    """Facts that can be refreshed."""

    def __init__(self, run: Run, info: RunInfo | None = None) -> None:
        super().__init__(run, info)
        self.tail = Tail(run.metrics_path)
        self.tail.read()
        self.rows, self.latest = self.tail.rows, self.tail.latest

    def refresh(self) -> bool:
        """Reads what is new; UserError where run.json cannot be read (any more)."""
        before, self.info = self.info, self.run.read()
        changed = self.tail.read() or self.info != before
        for name in STALE if changed else ():
            self.__dict__.pop(name, None)
        return changed

    @property
    def now(self) -> dict[str, Any] | None:
        """What it does at this moment. `late`: seconds since it said so, where that is longer than usual."""
        found = read_heartbeat(self.run.heartbeat_path) if self.live else None
        if found is None:
            return None
        beat, age = found
        return {**asdict(beat), "late": round(age) if age > LATE else 0}

    @property
    def eta(self) -> float | None:
        """Seconds until the budget is used up, at the speed of the last rows."""
        clocked = [row for row in self.rows[-RECENT:] if "time/elapsed" in row and STEP in row]
        if not self.live or len(clocked) < 2:
            return None
        steps, seconds = (clocked[-1][name] - clocked[0][name] for name in (STEP, "time/elapsed"))
        return max(self.total_steps - self.env_steps, 0) * seconds / steps if steps > 0 and seconds > 0 else None
