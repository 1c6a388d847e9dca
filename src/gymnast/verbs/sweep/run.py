"""`gymnast sweep`: better settings for an env, found with few seeds and confirmed with fresh ones.

Every cell (a config trained with a seed) is kept the moment it ends. The same command does what is not there yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.config.layers import split_target
from gymnast.core.errors import Lost, Stopped, UserError
from gymnast.core.statistics import median
from gymnast.core.text import number
from gymnast.core.trust import allow
from gymnast.jobs.launchers import open_launcher
from gymnast.runs.references import resolve_checkpoint
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.sweep.asked import base_of, make_plan
from gymnast.verbs.sweep.compare import Comparison
from gymnast.verbs.sweep.page import Found, write_page
from gymnast.verbs.sweep.plan import Candidate, Plan
from gymnast.verbs.sweep.search import Search
from gymnast.verbs.sweep.space import with_values
from gymnast.verbs.sweep.standings import Standing
from gymnast.verbs.sweep.store import Store
from gymnast.verbs.sweep.study import require_optuna
from gymnast.verbs.variant_file import write_variant

BEST = "best.yaml"
LOCAL_JOBS = 2  # trainings at the same time on this machine


@dataclass(frozen=True)
class Swept:
    name: str
    target: str  # what the user named, in words
    steps: int
    ran: int  # cells that were missing
    found: Found
    seeds: list[int]  # the fresh ones
    standings: list[Standing]
    importances: dict[str, float]
    variant: Path | None  # None: no better one found
    report: Path
    failed: dict[str, str]  # by config: why
    nodes: dict[str, list[str]]  # of a cluster: the cells that each has trained, or a part of them

    def to_json(self) -> dict[str, Any]:
        return {
            "sweep": self.name,
            "target": self.target,
            "steps": self.steps,
            "ran": self.ran,
            "better": self.variant is not None,
            "winner": self.found.winner,
            "confirmed": {name: asdict(comparison) for name, comparison in self.found.confirmed.items()},
            "scores": self.found.scores,
            "seconds": self.found.seconds,
            "seeds": self.seeds,
            "variant": None if self.variant is None else str(self.variant),
            "report": str(self.report),
            "standings": [asdict(standing) for standing in self.standings],
            "importances": self.importances,
            "failed": self.failed,
            "nodes": self.nodes,
        }


def sweep(
    target: str | None,
    overrides: Sequence[str],
    runs_dir: Path,
    *,
    start: str | None = None,
    steps: int | None = None,
    trials: int = 16,
    jobs: int | None = None,
    minutes: float | None = None,
    name: str | None = None,
    out: Path | None = None,
    on: str | None = None,
    trust: bool = False,
    progress: Progress = SILENT,
    **asked: Any,
) -> Swept:
    """`start`: a run to begin from. `trust`: what it or the target's file names is imported, wherever it was made.
    `asked`: what `make_plan` takes."""
    require_optuna()
    if trust:
        allow(split_target(str(target))[0] if start is None else resolve_checkpoint(start, runs_dir)[1])
    plan, notes = make_plan(base_of(target, start, overrides, steps, runs_dir), **asked)
    if name is not None and not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(f"--name {name!r}: a name has letters, digits, '.', '-' and '_' only.")
    launcher = open_launcher(on)  # before anything is written
    at_once = jobs or (launcher.room(cores=1) if on else LOCAL_JOBS)
    for note in notes:
        progress.say(note)
    store = Store(runs_dir / "sweeps" / (name or plan.name))
    store.open(plan)
    there = f"; {len(store.records)} trainings are there already" if store.records else ""
    searched = ", ".join(dim.key for dim in plan.space)
    progress.say(f"sweep of {plan.label} in {store.folder}: {searched}; {trials} configs, {plan.steps:,} steps{there}")
    try:
        work = Search(plan, store, launcher, trials, at_once, minutes, progress)
        finalists = work.search()
        return finish(work, finalists[0], work.confirm(finalists[0]), out)
    except (KeyboardInterrupt, Lost) as end:
        said = f"{len(store.records)} cells are kept in {store.folder}. The same command does the others."
        raise (UserError(f"{end}; {said}") if isinstance(end, Lost) else Stopped(f"stopped; {said}")) from None
    finally:
        store.close()


def finish(work: Search, winner: Candidate, confirmed: dict[str, Comparison], out: Path | None) -> Swept:
    """The result, its page, and the variant if there is a better one."""
    plan, store = work.plan, work.store
    path: Path | None = None
    seeds = plan.fresh_seeds
    if confirmed[plan.label].better:
        path = out or store.folder / BEST
        write_best(path, plan, winner, confirmed[plan.label])
    else:  # with fewer seeds or trials there may have been one
        (store.folder / BEST).unlink(missing_ok=True)
    everybody = {"winner": winner, **plan.opponents}
    scores = {name: work.scores(candidate, seeds, plan.steps) for name, candidate in everybody.items()}
    records = {name: [store.records[c.id, seed] for seed in seeds] for name, c in everybody.items()}
    seconds = {name: median([record.seconds for record in of]) for name, of in records.items()}
    curves = {name: [record.curve for record in of] for name, of in records.items()}
    found = Found(winner.values, confirmed, scores, seconds, curves)
    table, importances = work.standings(), work.journal.importances()
    page = write_page(plan, store, found, table, importances, work.journal.slices(), path)
    return Swept(
        name=store.folder.name,
        target=plan.label,
        steps=plan.steps,
        ran=work.ran,
        found=found,
        seeds=seeds,
        standings=table,
        importances=importances,
        variant=path,
        report=page,
        failed=work.failed,
        nodes=store.nodes,
    )


def write_best(path: Path, plan: Plan, winner: Candidate, confirmed: Comparison) -> None:
    """The confirmed winner as a file that `gymnast train` takes."""
    found = confirmed.difference
    low, high = number(found.low), number(found.high)
    head = (
        f"# Made by `gymnast sweep`. Its score on {confirmed.pairs} fresh seeds of {plan.steps:,} steps (the area\n"
        f"# under the curve) is {number(found.value)} above that of {plan.label}; 95 % interval {low} to {high}.\n"
    )
    if plan.init_from is not None:
        head += f"# Every training began with the agent of {plan.target}: train it with --init-from {plan.target}.\n"
    write_variant(path, plan.target, configs.validate(with_values(plan.asked, winner.values)), head)
