"""`gymnast runs list|show|delete|zip`. Needs no torch: headers and JSON files only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import Run, delete_run, list_runs, resolve, zip_run
from gymnast.verbs.result import Facts

BRIEF = ("id", "token", "env", "algo", "variant", "seed", "status", "created", "parent")
SHOWN = ("name", "step", "problem", "metrics")  # of a checkpoint


@dataclass(frozen=True)
class RunsList:
    folder: Path
    runs: list[RunFacts]
    warnings: list[str]  # folders that could not be read

    def to_json(self) -> dict[str, Any]:
        return {"runs": [brief(run) for run in self.runs], "warnings": self.warnings}


@dataclass(frozen=True)
class ShownRun:
    facts: RunFacts

    def to_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            **asdict(facts.info),
            **brief(facts),
            "threshold": facts.threshold,
            "checkpoints": [{name: getattr(item, name) for name in SHOWN} for item in facts.checkpoints],
            "alerts": [alert.to_json() for alert in facts.alerts],
            "metrics": facts.latest,
            "rows": len(facts.rows),
            "crash": facts.crash,
            "problem": "; ".join(facts.problems) or None,
        }


def list_all_runs(runs_dir: Path) -> RunsList:
    runs = list_runs(runs_dir)
    return RunsList(runs_dir, [RunFacts(Run(i.path), i) for i in (*runs, *runs.damaged)], runs.warnings)


def show_run(ref: str, runs_dir: Path) -> ShownRun:
    return ShownRun(RunFacts(resolve(ref, runs_dir)))


def brief(facts: RunFacts) -> dict[str, Any]:
    """What a run is and how far it came, in JSON."""
    return {
        **{name: getattr(facts.info, name) for name in BRIEF},
        **{name: getattr(facts, name) for name in ("score", "solved", "env_steps", "seconds")},
        "path": facts.info.path,
        "interval": facts.summary.get("interval"),
    }


def find_runs(refs: Sequence[str], runs_dir: Path) -> list[Run]:
    """Each run once, however often it is named."""
    return list({run.id: run for run in (resolve(ref, runs_dir) for ref in refs)}.values())


def delete_runs(runs: Sequence[Run]) -> Facts:
    for run in runs:
        delete_run(run)
    return Facts({"deleted": [run.id for run in runs]})


def zip_ref(ref: str, runs_dir: Path, out: Path) -> Facts:
    return Facts({"zip": zip_run(resolve(ref, runs_dir), out)})
