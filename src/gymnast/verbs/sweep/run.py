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
from gymnast.core.errors import Stopped, UserError
from gymnast.jobs.launchers import open_launcher
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.sweep.compare import Comparison, front
from gymnast.verbs.sweep.plan import SAMPLERS, Candidate, Plan, refuse_short, rounds_of
from gymnast.verbs.sweep.search import Search
from gymnast.verbs.sweep.space import Dimension, make_space, parse_search
from gymnast.verbs.sweep.space_file import read_space
from gymnast.verbs.sweep.store import Store
from gymnast.verbs.sweep.study import require_optuna
from gymnast.verbs.sweep.variant import write_variant
from gymnast.verbs.train import resolve_config

LOCAL_JOBS = 2  # trainings at the same time on this machine


@dataclass(frozen=True)
class Standing:
    """How a config did, on all search seeds it got, up to the steps of the last round it was in."""

    config: str
    values: dict[str, Any]  # {}: the base
    round: int
    seeds: int
    steps: int
    score: float
    seconds: float  # training seconds that all of the sweep's steps take, estimated from those that were made
    stopped: bool
    on_front: bool = False  # no other config has a better score on the first seed in fewer seconds


@dataclass(frozen=True)
class Swept:
    name: str
    folder: Path
    target: str
    steps: int
    ran: int
    standings: list[Standing]
    winner: dict[str, Any]
    confirmed: dict[str, Comparison]  # by whom the winner was compared with; the target is the first, and decides
    scores: dict[str, list[float]]  # of the winner and of each of them, on the fresh seeds
    seeds: list[int]
    importances: dict[str, float]
    variant: Path | None  # None: no better one found
    failed: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "sweep": self.name,
            "folder": str(self.folder),
            "target": self.target,
            "steps": self.steps,
            "ran": self.ran,
            "better": self.variant is not None,
            "winner": self.winner,
            "confirmed": {name: asdict(comparison) for name, comparison in self.confirmed.items()},
            "scores": self.scores,
            "seeds": self.seeds,
            "variant": None if self.variant is None else str(self.variant),
            "standings": [asdict(standing) for standing in self.standings],
            "importances": self.importances,
            "failed": self.failed,
        }


def sweep(
    target: str,
    overrides: Sequence[str],
    runs_dir: Path,
    *,
    search: Sequence[str] = (),
    space: Path | None = None,
    sampler: str | None = None,
    trials: int = 16,
    steps: int | None = None,
    seeds: int = 5,
    seed: int = 0,
    jobs: int | None = None,
    minutes: float | None = None,
    name: str | None = None,
    out: Path | None = None,
    against: str | None = None,
    on: str | None = None,
    progress: Progress = SILENT,
) -> Swept:
    require_optuna()
    plan = make_plan(target, overrides, steps, search, space, sampler, seed, seeds, against, progress)
    if name is not None and not re.fullmatch(r"[\w][\w.-]*", name):
        raise UserError(f"--name {name!r}: a name has letters, digits, '.', '-' and '_' only.")
    launcher = open_launcher(on)  # before anything is written
    at_once = jobs or (launcher.room(plan.base.config.train.threads or 1) if on else LOCAL_JOBS)
    store = Store(runs_dir / "sweeps" / (name or plan.name))
    store.open(plan)
    try:
        work = Search(plan, store, launcher, trials, at_once, minutes, progress)
        finalists = work.search()
        confirmed = work.confirm(finalists[0])
        return finish(work, finalists[0], confirmed, out)
    except KeyboardInterrupt:
        message = f"stopped; {len(store.records)} cells are kept in {store.folder}. The same command does the others."
        raise Stopped(message) from None
    finally:
        store.close()


def make_plan(
    target: str,
    overrides: Sequence[str],
    steps: int | None,
    search: Sequence[str],
    space: Path | None,
    sampler: str | None,
    seed: int,
    fresh: int,
    against: str | None,
    progress: Progress,
) -> Plan:
    resolved = resolve_config(target, overrides, steps=steps)
    refuse_short(resolved.config)
    if resolved.config.stages:
        raise UserError(
            f"{target}: scores of different stages cannot be compared: a sweep takes configs without stages."
        )
    forms, wanted, notes = ({}, None, []) if space is None else read_space(space)
    for note in notes:
        progress.say(note)
    forms |= parse_search(search)
    if not forms:
        forms = {key: (form, f"search of {resolved.target}") for key, form in resolved.search.items()}
    found = make_space(forms, resolved.config)
    sampler = sampler or wanted or "tpe"
    refuse_ranges_of_grid(found, sampler)
    other = None if against is None else resolve_config(against, [], steps=resolved.config.train.total_timesteps)
    named = None if other is None else (other.target, other.config)
    return Plan(resolved.target, resolved.config, found, sampler, seed, fresh, against=named)


def refuse_ranges_of_grid(space: Sequence[Dimension], sampler: str) -> None:
    if sampler not in SAMPLERS:
        raise UserError(f"--sampler {sampler}: must be one of {', '.join(SAMPLERS)}.")
    ranges = [dim for dim in space if dim.kind != "choice"]
    if sampler == "grid" and ranges:
        lines = [f"{dim.source}: {dim.key} = {dim.text}: a grid needs a list, like [a, b, c]." for dim in ranges]
        raise configs.ConfigError(lines)


def finish(work: Search, winner: Candidate, confirmed: dict[str, Comparison], out: Path | None) -> Swept:
    """The result, its page, and the variant if there is a better one."""
    plan, store = work.plan, work.store
    path, seeds, decides = None, plan.fresh_seeds, confirmed[plan.target]
    if decides.better:
        path = write_variant(out or store.folder / "best.yaml", plan, winner, decides)
    return Swept(
        name=store.folder.name,
        folder=store.folder,
        target=plan.target,
        steps=plan.steps,
        ran=work.ran,
        standings=standings(work),
        winner=winner.values,
        confirmed=confirmed,
        scores={
            name: work.scores(candidate, seeds, plan.steps)
            for name, candidate in {"winner": winner, **plan.opponents}.items()
        },
        seeds=seeds,
        importances=work.journal.importances(),
        variant=path,
        failed=work.failed,
    )


def standings(work: Search) -> list[Standing]:
    """Best first: those that came further, then by score."""
    plan, store = work.plan, work.store
    rounds = rounds_of(work.trials, plan.steps)
    found: list[Standing] = []
    firsts: list[tuple[float, float]] = []
    for candidate in (plan.base, *(candidate for _, candidate in work.journal.candidates())):
        records = [r for seed in plan.search_seeds if (r := store.records.get((candidate.id, seed)))]
        if not records or candidate.id in work.failed:
            continue
        longest = min(record.steps for record in records)
        index = max((i for i, r in enumerate(rounds) if r.steps <= longest), default=0)
        steps = rounds[index].steps
        score = sum(record.score(steps) for record in records) / len(records)
        made = sum(record.steps for record in records)
        seconds = sum(record.seconds for record in records) / made * plan.steps
        firsts.append((records[0].score(rounds[0].steps), seconds))
        found.append(
            Standing(candidate.id, candidate.values, index + 1, len(records), steps, score, seconds, records[0].stopped)
        )
    marked = [
        Standing(**{**asdict(standing), "on_front": on}) for standing, on in zip(found, front(firsts), strict=True)
    ]
    return sorted(marked, key=lambda standing: (-standing.round, -standing.seeds, -standing.score))
