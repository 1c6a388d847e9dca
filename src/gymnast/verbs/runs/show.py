"""`gymnast runs list|show|delete|zip|import`. Needs no torch: headers and JSON files only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.report.run_facts import RunFacts
from gymnast.runs.archive import import_run, zip_run
from gymnast.runs.references import Run, delete_run, list_runs, resolve, runs_of_sweep
from gymnast.verbs.remote.start import bring, is_left_alone
from gymnast.verbs.result import Facts

BRIEF = ("token", "name", "tags", "env", "algo", "variant", "seed", "status", "created", "parent")
CAME_TO = ("score", "training_return", "solved", "on_target", "env_steps", "seconds", "changes")
SORTS: dict[str, Callable[[RunFacts], Any]] = {  # the highest first
    "created": lambda run: run.info.created,
    "score": lambda run: (run.score is not None, run.score),
    "steps": lambda run: run.env_steps,
    "time": lambda run: run.seconds or 0.0,
}
SHOWN = ("name", "step", "problem", "metrics")  # of a checkpoint


@dataclass(frozen=True)
class RunsList:
    folder: Path
    runs: list[RunFacts]
    warnings: list[str]  # folders that could not be read
    total: int  # with those that were left out

    def to_json(self) -> dict[str, Any]:
        return {"runs": [brief(run) for run in self.runs], "total": self.total, "warnings": self.warnings}


@dataclass(frozen=True)
class ShownRun:
    facts: RunFacts

    def to_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            **brief(facts),
            **{name: value for name, value in asdict(facts.info).items() if name not in ("id", "path")},
            "threshold": facts.threshold,
            "checkpoints": [{name: getattr(item, name) for name in SHOWN} for item in facts.checkpoints],
            "alerts": [alert.to_json() for alert in facts.alerts],
            "metrics": facts.latest,
            "rows": len(facts.rows),
            "crash": facts.crash,
            "problem": "; ".join(facts.problems) or None,
        }


def list_all_runs(
    runs_dir: Path,
    env: str | None = None,
    algo: str | None = None,
    status: str | None = None,
    solved: bool | None = None,
    tags: Sequence[str] = (),
    name: str | None = None,
    sweep: str | None = None,
    sort: str = "created",
    limit: int | None = None,
) -> RunsList:
    """Those that all of these words fit. `algo`: or the variant; `tags`: all of them; `name`: or its beginning;
    `sweep`: the trainings of this sweep instead, which are in no other list."""
    runs = list_runs(runs_dir) if sweep is None else runs_of_sweep(sweep, runs_dir)
    fitting = [
        info
        for info in (*runs, *runs.damaged)
        if env in (None, info.env)
        and (algo is None or algo in (info.algo, info.variant))
        and status in (None, info.status)
        and (name is None or (info.name or "").startswith(name))
        and set(tags) <= set(info.tags)
    ]
    found = [RunFacts(Run(info.path), info) for info in fitting]
    found = [run for run in found if solved is None or bool(run.solved) == solved]
    found.sort(key=SORTS[sort], reverse=True)  # stable: the newest first among equals
    return RunsList(runs_dir, found[:limit], runs.warnings, len(runs))


def show_run(ref: str, runs_dir: Path, say: Callable[[str], None] = lambda text: None) -> ShownRun:
    """A run that is trained elsewhere is brought up to date first, where nothing else does that."""
    run = resolve(ref, runs_dir)
    with suppress(UserError):  # a damaged run is shown as far as it goes
        if is_left_alone(run):
            try:
                bring(run)
            except UserError as error:
                say(f"not up to date: {error}")
    return ShownRun(RunFacts(run))


def brief(facts: RunFacts) -> dict[str, Any]:
    """What a run is and how far it came, in JSON."""
    return {
        "run": facts.info.id,
        **{name: getattr(facts.info, name) for name in BRIEF},
        **{name: getattr(facts, name) for name in CAME_TO},
        "path": facts.info.path,
        "interval": facts.summary.get("interval"),
        "evaluated_on": facts.summary.get("evaluated_on"),
        **({"stages": facts.stages} if facts.stages else {}),
    }


def find_runs(refs: Sequence[str], runs_dir: Path) -> list[Run]:
    """Each run once, however often it is named."""
    return list({run.id: run for run in (resolve(ref, runs_dir) for ref in refs)}.values())


def delete_runs(runs: Sequence[Run]) -> Facts:
    for run in runs:
        delete_run(run)
    return Facts({"deleted": [run.id for run in runs]})


def zip_ref(ref: str, runs_dir: Path, out: Path) -> Facts:
    zipped = zip_run(resolve(ref, runs_dir), out)
    return Facts({"zip": zipped.path, "skipped": zipped.skipped})


def import_zip(path: Path, runs_dir: Path) -> Facts:
    imported = import_run(path, runs_dir)
    return Facts({"run": imported.run.id, "named": imported.named, "skipped": imported.skipped})
