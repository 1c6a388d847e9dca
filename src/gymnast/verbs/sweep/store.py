"""What a sweep has found out, on the disk.

RUNS/sweeps/NAME/
  sweep.json                 what was asked
  journal.log                Optuna's journal: `optuna-dashboard journal.log` opens it
  cells/CONFIG-sSEED.json    one finished cell each, written the moment it ends
  runs/CONFIG-sSEED/         the run of a cell, from which it goes on; without checkpoints where it was given up
  report.md, report.html     made from the cells
  best.yaml                  the confirmed winner, if there is one
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gymnast.core.errors import UserError
from gymnast.core.files import read_json, write_json
from gymnast.core.text import setting
from gymnast.runs.lock import RunLock
from gymnast.verbs.sweep.plan import Candidate, Plan

INIT = "init.safetensors"  # in the folder of a cell: the checkpoint that it starts from
Curve = list[tuple[int, float]]  # (env steps, mean return of an evaluation), from the untrained agent on


def area(curve: Sequence[Sequence[float]], steps: float) -> float:
    """THE score of a cell: the mean height of its evaluation curve from step 0 to `steps`.

    Evaluations are joined by lines; the last one holds to the end. It rises when a config learns faster and when it
    ends higher, in the unit of the env's reward, and is defined for one that never solves.
    """
    at, scores = np.array([point[0] for point in curve], float), np.array([point[1] for point in curve], float)
    grid = np.unique(np.concatenate([at[at < steps], [0.0, steps]]))
    heights = np.interp(grid, at, scores)
    return float(np.trapezoid(heights, grid) / steps)


@dataclass(frozen=True)
class Record:
    """A finished cell: a config trained with a seed for some steps."""

    config: str
    seed: int
    steps: int  # made
    seconds: float  # of training alone
    curve: Curve
    stopped: bool = False  # as hopeless, before its steps were made
    final: float | None = None  # mean return of the last agent on fresh episodes, of a full run
    nodes: list[str] = field(default_factory=list)  # of a cluster, that trained it one after the other
    values: dict[str, Any] = field(default_factory=dict)  # of the config, where they are not the base's

    @classmethod
    def of(cls, curve: Sequence[Sequence[float]], **facts: Any) -> Record:
        """From JSON, which has lists only."""
        return cls(curve=[(int(steps), float(score)) for steps, score in curve], **facts)

    def score(self, steps: int) -> float:
        return area(self.curve, steps)

    def was_stopped_before(self, steps: int) -> bool:
        """One that a later round stopped has made the steps of the rounds before."""
        return self.stopped and self.steps < steps


class Store:
    """The finished cells of a sweep. One process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[tuple[str, int], Record] = {}
        for path in sorted((folder / "cells").glob("[!.]*.json")):
            record = Record.of(**read_json(path))
            self.records[record.config, record.seed] = record
        self._lock = RunLock(folder / "lock")

    @property
    def journal(self) -> Path:
        return self.folder / "journal.log"

    def open(self, plan: Plan) -> None:
        """Refuses a folder that another sweep has, or another process works in."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire():
            raise UserError(f"sweep {self.folder.name} is being run by another process.")
        path, asked = self.folder / "sweep.json", plan.to_json()
        if path.is_file():
            self._refuse_another(read_json(path), asked)
        else:
            write_json(path, asked)

    def _refuse_another(self, there: dict[str, Any], asked: dict[str, Any]) -> None:
        for key in asked:
            if there.get(key) != asked[key]:
                was = "" if key in ("config", "space") else f" ({setting(there.get(key))})"
                raise UserError(
                    f"--name {self.folder.name}: a sweep of this name has another {key}{was}. Choose another name, or "
                    f"delete {self.folder}."
                )

    def close(self) -> None:
        self._lock.release()

    def find(self, candidate: Candidate, seed: int, steps: int) -> Record | None:
        """The cell, if it is finished for these steps."""
        record = self.records.get((candidate.id, seed))
        return record if record is not None and (record.stopped or record.steps >= steps) else None

    @property
    def nodes(self) -> dict[str, list[str]]:
        """Of a cluster: the cells that each has trained, or a part of them."""
        found: dict[str, list[str]] = {}
        for record in self.records.values():
            for node in dict.fromkeys(record.nodes):
                found.setdefault(node, []).append(f"{record.config}-s{record.seed}")
        return dict(sorted(found.items()))

    def keep(self, record: Record) -> None:
        """On the disk before it counts."""
        path = self.folder / "cells" / f"{record.config}-s{record.seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(record))
        self.records[record.config, record.seed] = record

    def run_folder(self, candidate: Candidate, seed: int) -> Path:
        return self.folder / "runs" / f"{candidate.id}-s{seed}"

    def drop_checkpoints(self, config: str) -> None:
        """Nobody goes on from them. The runs stay with what says how they went: config, metrics, alerts, report."""
        for folder in (self.folder / "runs").glob(f"{config}-s*"):
            (folder / INIT).unlink(missing_ok=True)
            for checkpoints in folder.glob("[!.]*/checkpoints"):
                shutil.rmtree(checkpoints, ignore_errors=True)
