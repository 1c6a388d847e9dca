"""`gymnast runs list|show`. Needs no torch: headers and JSON files only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import Run, list_runs, resolve


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
            **{key: value for key, value in asdict(facts.info).items() if key not in ("path", "id")},
            **brief(facts),
            "threshold": facts.threshold,
            "checkpoints": [
                {"name": item.name, "step": item.step, "problem": item.problem, "metrics": item.metrics}
                for item in facts.checkpoints
            ],
            "alerts": [alert.to_json() for alert in facts.alerts],
            "metrics": facts.latest,
            "rows": len(facts.rows),
            "crash": facts.crash,
            "problem": "; ".join(facts.problems) or None,
        }


def list_all_runs(runs_dir: Path) -> RunsList:
    runs = list_runs(runs_dir)
    return RunsList(runs_dir, [RunFacts(Run(info.path), info) for info in runs], runs.warnings)


def show_run(ref: str, runs_dir: Path) -> ShownRun:
    return ShownRun(RunFacts(resolve(ref, runs_dir)))


def brief(facts: RunFacts) -> dict[str, Any]:
    """What a run is and how far it came, in JSON."""
    names = ("id", "token", "env", "algo", "variant", "seed", "status", "created", "parent")
    return {
        **{name: getattr(facts.info, name) for name in names},
        "path": str(facts.info.path),
        "score": facts.score,
        "solved": facts.solved,
        "env_steps": facts.env_steps,
        "seconds": facts.seconds,
        "interval": facts.summary.get("interval"),
    }
