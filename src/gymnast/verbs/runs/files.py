"""`gymnast runs delete|zip`: a run's folder as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast.runs.references import Run, delete_run, resolve, zip_run


@dataclass(frozen=True)
class DeletedRuns:
    deleted: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ZippedRun:
    zip: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_runs(refs: Sequence[str], runs_dir: Path) -> list[Run]:
    """Each run once, however often it is named."""
    return list({run.id: run for run in (resolve(ref, runs_dir) for ref in refs)}.values())


def delete_runs(runs: Sequence[Run]) -> DeletedRuns:
    for run in runs:
        delete_run(run)
    return DeletedRuns([run.id for run in runs])


def zip_ref(ref: str, runs_dir: Path, out: Path) -> ZippedRun:
    return ZippedRun(str(zip_run(resolve(ref, runs_dir), out)))
