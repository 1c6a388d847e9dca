"""The runs of a folder as pages show them. What has not changed on the disk is not read again: a look at 1,000 runs
costs a few milliseconds.

A row is made in two steps. run.json alone gives nearly all of it, and the list is shown; curve, alerts and what a run
without a summary came to are read afterwards, the newest run first.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from gymnast.alerts.alert import read_alerts
from gymnast.core.errors import UserError
from gymnast.core.files import read_bytes
from gymnast.report.run_facts import RETURN, RunFacts
from gymnast.runs.references import SWEEPS, Run, RunInfo, in_sweeps, resolve
from gymnast.sinks.jsonl import LARGEST_TABLE
from gymnast.studio.answers import NotFound
from gymnast.studio.followed import FollowedRun
from gymnast.studio.socket import to_json

COLOURS, APART = 20, 12  # that the pages draw runs in, and how many of them are far apart: these come first
SPARK = 40  # points of the curve in a row
KEPT = 8  # runs whose rows are in memory although nobody trains them
SETTLED = 1_000_000_000  # ns after which two changes of a folder have two different times for sure
RETURNS = re.compile(rb'"rollout/ep_rew_mean":\s*(-?[0-9][0-9.eE+-]*)')
OF_INFO = ("id", "token", "name", "env", "variant", "algo", "seed", "status", "tags", "created", "updated", "parent")


class Changes(NamedTuple):
    rows: list[dict[str, Any]]
    removed: list[str]
    revision: int


@dataclass
class _Entry:
    stamp: int  # when its folder changed last; 0: too lately to be sure
    row: dict[str, Any]
    complete: bool
    revision: int = 0
    text: str = ""  # the row as JSON, once it was asked for


class Library:
    """Used by several threads: one refreshes, others answer requests. Every change has a number, its revision."""

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir
        self._entries: dict[str, _Entry] = {}
        self._removed: dict[str, int] = {}
        self._colours: dict[str, int] = {}
        self._revision = 0
        self._followed: OrderedDict[str, FollowedRun] = OrderedDict()
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Looks for new, changed and deleted runs."""
        with self._lock:
            self._revision += 1
            stamps = self._stamps()
            for name in [name for name in self._entries if name not in stamps]:
                del self._entries[name]
                self._followed.pop(name, None)
                self._colours.pop(name, None)
                self._removed[name] = self._revision
            new: list[dict[str, Any]] = []
            for name, stamp in stamps.items():
                entry = self._entries.get(name)
                if entry is None or entry.stamp != stamp or entry.row["status"] == "running":
                    fresh = self._read(name, stamp, known=entry is not None)
                    fresh.row["colour"] = self._colours.get(name)
                    if entry is None:
                        new.append(fresh.row)
                    same = entry is not None and fresh.row == entry.row
                    fresh.revision = entry.revision if entry is not None and same else self._revision
                    self._entries[name] = fresh
                    self._removed.pop(name, None)
            self._colour(sorted(new, key=_newest))

    def _colour(self, rows: list[dict[str, Any]]) -> None:
        """Each gets the colour that fewest runs have, the oldest first, and keeps it; of several, one by its name."""
        uses = [0] * COLOURS
        for colour in self._colours.values():
            uses[colour] += 1
        for row in rows:
            first = crc32(row["id"].encode(errors="replace"))
            order = [(first + step) % COLOURS for step in range(COLOURS)]
            colour = min(order, key=lambda one: (uses[one], one >= APART))
            self._colours[row["id"]] = row["colour"] = colour
            uses[colour] += 1

    def colour_of(self, name: str) -> int:
        with self._lock:
            if name not in self._colours:
                self.refresh()
            return self._colours.get(name, 0)

    @property
    def live(self) -> bool:
        """Whether any run was being trained when it looked last."""
        with self._lock:
            return any(entry.row["status"] == "running" for entry in self._entries.values())

    def complete(self, most: int) -> None:
        """Reads the second half of rows that have none, of at most so many."""
        with self._lock:
            self._revision += 1
            waiting = [(entry.row["created"], name) for name, entry in self._entries.items() if not entry.complete]
            for _, name in sorted(waiting, reverse=True)[:most]:
                entry = self._entries[name]
                try:
                    second_half = _second_half(self.runs_dir / name, entry.row)
                except (UserError, OSError):  # it has just been deleted or damaged: the next refresh sees that
                    continue
                entry.row = {**entry.row, **second_half}
                entry.complete, entry.revision, entry.text = True, self._revision, ""

    def since(self, revision: int) -> Changes:
        """What has changed after a revision; all of it after -1."""
        with self._lock:
            rows = [entry.row for entry in self._entries.values() if entry.revision > revision]
            removed = [name for name, at in self._removed.items() if at > revision]
            return Changes(sorted(rows, key=_newest, reverse=True), removed, self._revision)

    def to_json(self) -> str:
        """All rows, the newest first, and the revision. A row is put into JSON once: 1,000 of them take 50 ms."""
        with self._lock:
            for entry in self._entries.values():
                entry.text = entry.text or to_json(entry.row)
            entries = sorted(self._entries.values(), key=lambda entry: _newest(entry.row), reverse=True)
            return f'{{"runs": [{",".join(entry.text for entry in entries)}], "revision": {self._revision}}}'

    def find(self, ref: str, exact: bool = False) -> Run:
        """@last, @best, an id, the beginning of one or a name: a run in this folder and nowhere else. `exact`: an id
        only, so that what is done to a run that is gone is never done to another one."""
        if not ref or ref.startswith(".") or set(ref) & set("/\\\0"):
            raise NotFound(f"{ref!r} is not the name of a run.")
        if exact and not self._is_run(ref):
            raise NotFound(f"there is no run with the id {ref!r} (any more).")
        try:
            run = Run(self.runs_dir / ref) if self._is_run(ref) else self._of_sweep(ref) or resolve(ref, self.runs_dir)
        except UserError as error:
            raise NotFound(str(error)) from None
        place, here = run.path.resolve(), self.runs_dir.resolve()
        if run.path.is_symlink() or not (place.parent == here or place.is_relative_to(here / SWEEPS)):
            raise NotFound(f"{ref!r} is not in the folder of the runs.")
        return run

    def _of_sweep(self, name: str) -> Run | None:
        """A run of a sweep's cell, by its id: it can be looked at, and is in no list."""
        return next((run for run in in_sweeps(name, self.runs_dir) if run.path.name == name), None)

    @contextmanager
    def reading(self, ref: str) -> Iterator[FollowedRun]:
        """A run with all that is in its files now; it does not change in the block."""
        run = self.find(ref)
        with self._lock:
            yield self._follow(run)

    def _follow(self, run: Run) -> FollowedRun:
        followed = self._followed.get(run.id)
        if followed is None:
            followed = self._followed[run.id] = FollowedRun(run)
        else:
            followed.refresh()
        self._followed.move_to_end(run.id)
        idle = [name for name, one in self._followed.items() if not one.live]
        for name in idle[: max(0, len(idle) - KEPT)]:
            del self._followed[name]
        return followed

    def _stamps(self) -> dict[str, int]:
        """Of the folders that hold a run, when each changed. A link is not followed: it may lead anywhere."""
        settled = time.time_ns() - SETTLED
        found = {}
        try:
            with os.scandir(self.runs_dir) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        with suppress(OSError):  # it has just been deleted; the others are still there
                            stamp = entry.stat(follow_symlinks=False).st_mtime_ns
                            found[entry.name] = stamp if stamp < settled else 0
        except OSError:
            return {}  # no run has been started yet
        known = self._entries
        return {name: at for name, at in found.items() if name in known or self._is_run(name)}

    def _is_run(self, name: str) -> bool:
        return os.path.lexists(self.runs_dir / name / "run.json")

    def _read(self, name: str, stamp: int, known: bool) -> _Entry:
        """`known`: a page shows it already, and its curve must not vanish."""
        run = Run(self.runs_dir / name)
        try:
            info = run.read()
            if info.status == "running":
                return _Entry(stamp, complete_row(self._follow(run)), complete=True)
            row = row_of(RunFacts(run, info))
            return _Entry(stamp, {**row, **_second_half(run.path, row)} if known else row, complete=known)
        except (UserError, OSError) as error:
            damaged = RunInfo(run.path, name, "damaged")
            return _Entry(stamp, {**row_of(RunFacts(run, damaged)), "problem": str(error)}, complete=True)


def sweep_of(path: Path) -> str | None:
    """The sweep that a run belongs to, by where it is: sweeps/NAME/runs/CELL/ID. A path may be relative and short."""
    parts = path.resolve().parts
    return parts[-4] if len(parts) >= 5 and parts[-5] == SWEEPS else None


def _newest(row: dict[str, Any]) -> tuple[str, str]:
    return row["created"], row["id"]


def row_of(facts: RunFacts) -> dict[str, Any]:
    """What run.json says, in the words of the pages; of a run that is trained, its last row of metrics as well."""
    info, summary = facts.info, facts.summary
    live = isinstance(facts, FollowedRun)
    interval = summary.get("interval") or (None, None)
    return {
        **{name: getattr(info, name) for name in OF_INFO},
        "on": info.on,
        "changes": info.changed or {},
        "score": facts.score if live else info.score,
        "score_kind": facts.best_kind if live and summary.get("eval_mean") is None else None,  # None: of fresh episodes
        "low": interval[0],
        "high": interval[1],
        "solved": facts.solved if live else summary.get("solved") if summary.get("threshold") is not None else None,
        "judged": summary.get("eval_mean") is not None,  # by a verdict
        "on_target": summary.get("on_target"),
        "threshold": facts.threshold if live else summary.get("threshold"),
        "training_return": facts.training_return if live else summary.get("training_return"),
        "env_steps": facts.env_steps if live else summary.get("env_steps"),
        "seconds": facts.seconds if live else summary.get("seconds"),
        "total_steps": facts.total_steps if live else None,
        "progress": min(facts.env_steps / facts.total_steps, 1.0) if live else None,
        "eta": facts.eta if isinstance(facts, FollowedRun) else None,
        "now": facts.now if isinstance(facts, FollowedRun) else None,
        "fps": facts.fps if live else summary.get("fps"),
        "spark": [],
        "alerts": 0,
    }


def complete_row(facts: FollowedRun) -> dict[str, Any]:
    returns = [row[RETURN] for row in facts.rows if RETURN in row]
    return {**row_of(facts), "spark": _spark(returns), "alerts": len(facts.alerts)}


def _second_half(path: Path, row: dict[str, Any]) -> dict[str, Any]:
    """Of a run that nobody trains."""
    run = Run(path)
    if row["seconds"] is None:  # it was killed or crashed: its rows alone say how far it came
        return complete_row(FollowedRun(run))
    try:
        # One number of every line: reading all of them would take a hundred times as long
        values = [float(text) for text in RETURNS.findall(read_bytes(run.metrics_path, LARGEST_TABLE))]
    except (OSError, ValueError):
        values = []
    try:
        alerts = len(read_alerts(run.alerts_path))
    except UserError:
        alerts = 0
    return {"spark": _spark(values), "alerts": alerts}


def _spark(values: list[float]) -> list[float]:
    """Means of stretches."""
    finite = [value for value in values if math.isfinite(value)]
    length = min(len(finite), SPARK)
    cuts = [index * len(finite) // length for index in range(length + 1)] if finite else []
    return [float(f"{sum(finite[a:b]) / (b - a):.4g}") for a, b in pairwise(cuts)]
