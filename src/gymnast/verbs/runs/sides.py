"""Sides of a comparison: which runs belong together, what tells them apart, and their curves in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.statistics import interval, iqm
from gymnast.core.text import assignment
from gymnast.metrics.catalogue import catalogue
from gymnast.report.charts.model import Curve, Points, finite
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import list_runs, resolve

CLOCKS = {
    "steps": ("time/total_timesteps", "env steps"),
    "vec_steps": ("time/vec_steps", "vector steps"),
    "updates": ("time/updates", "updates"),
    "seconds": ("time/elapsed", "seconds"),
}
NEAR = 4  # metrics that may have been meant
GRID = 120  # points at which several runs are put together
NAMED = 3  # settings that a side is named by, at most
BESIDE = ("log.", "eval.", "stop.", "train.")  # sections that say less of a run than what it learns with
MISSING = "n/a"  # what a run without such a setting has: an env without this option, another algorithm


@dataclass(frozen=True)
class Side:
    """One run, or several that are taken for repetitions of the same: other seeds, or whatever the user joined.

    Of runs with the same settings and the same seed one counts: a repeat says nothing about other seeds.
    """

    runs: list[RunFacts]
    repeats: list[tuple[RunFacts, RunFacts]] = field(default_factory=list)  # one that does not count, the one that does

    @classmethod
    def of(cls, runs: Sequence[RunFacts]) -> Side:
        """Of repeats the one that was trained furthest counts, of these the first."""
        same: dict[Any, list[RunFacts]] = {}
        for facts in runs:
            same.setdefault((fingerprint(facts), facts.info.seed), []).append(facts)
        kept = {key: max(group, key=lambda facts: facts.env_steps) for key, group in same.items()}
        repeats = [(one, kept[key]) for key, group in same.items() for one in group if one is not kept[key]]
        return cls(list(kept.values()), repeats)

    @property
    def all(self) -> list[RunFacts]:
        return [*self.runs, *(one for one, _ in self.repeats)]

    @property
    def notes(self) -> list[str]:
        """What is left out, and why."""
        return [f"{one.token} repeats {kept.token}, same settings and seed: counted once" for one, kept in self.repeats]

    @property
    def token(self) -> str:
        more = len(self.runs) - 1
        return self.runs[0].token + (f"+{more}" if more else "")

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(facts.info.env for facts in self.runs))


def find_sides(refs: Sequence[str], runs_dir: Path, group: str = "seed") -> list[Side]:
    """`a,b` joins two runs; @all and @all:ENV are all runs; by "seed", runs that differ in nothing else are joined."""
    order: list[list[RunFacts] | RunFacts] = []
    for ref in refs:
        names = [name for name in ref.split(",") if name] or [ref]
        runs = {facts.info.id: facts for name in names for facts in _expand(name, runs_dir)}.values()
        order += [list(runs)] if len(names) > 1 else runs
    seen = [facts.info.id for item in order if isinstance(item, list) for facts in item]
    if twice := [name for name in dict.fromkeys(seen) if seen.count(name) > 1]:
        raise UserError(f"{twice[0]} is on two sides. Name each run once.")
    sides: dict[Any, list[RunFacts]] = {}
    for index, item in enumerate(order):
        if isinstance(item, list):
            sides[index] = item
        elif item.info.id not in seen:
            seen.append(item.info.id)
            key = fingerprint(item) if group == "seed" else item.info.id
            sides.setdefault(key, []).append(item)
    return [Side.of(runs) for runs in sides.values()]


def _expand(ref: str, runs_dir: Path) -> list[RunFacts]:
    if ref != "@all" and not ref.startswith("@all:"):
        return [RunFacts(resolve(ref, runs_dir))]
    env = ref.partition(":")[2]
    runs = [info for info in list_runs(runs_dir) if env in ("", info.env)]
    if not runs:
        raise UserError(f"{ref}: no run{f' of {env}' if env else ''} in {runs_dir}.")
    return [RunFacts(resolve(str(info.path.resolve()), runs_dir)) for info in reversed(runs)]


def fingerprint(facts: RunFacts) -> str:
    """The same for runs that differ in nothing but the seed. A config that cannot be read is like no other, and so is a
    run that started from another's agent."""
    flat = {key: value for key, value in flat_settings(facts).items() if key != "train.seed"}
    return json.dumps(flat, sort_keys=True) if flat and facts.info.parent is None else facts.info.id


def flat_settings(facts: RunFacts) -> dict[str, Any]:
    def leaves(settings: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        for key, value in settings.items():
            if isinstance(value, dict) and value:
                yield from leaves(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    return dict(leaves(facts.settings))


def by_side(
    sides: Sequence[Side], of: Callable[[RunFacts], dict[str, Any]], missing: Any = None
) -> dict[str, list[list[Any]]]:
    """What is said of runs, by its name: a list a side, with a value a run; `missing` where nothing is said of one."""
    found = [[of(facts) for facts in side.runs] for side in sides]
    names = dict.fromkeys(name for runs in found for said in runs for name in said)
    return {name: [[said.get(name, missing) for said in runs] for runs in found] for name in names}


def differing(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: row for name, row in rows.items() if any(value != row[0] for value in row)}


def differing_settings(sides: Sequence[Side]) -> dict[str, list[Any]]:
    """A value a side; where its runs differ, a list of theirs."""

    def common(values: list[Any]) -> Any:
        return values[0] if all(value == values[0] for value in values) else values

    found = by_side(sides, flat_settings, MISSING)
    return differing({name: [common(values) for values in row] for name, row in found.items()})


def labels(sides: Sequence[Side]) -> list[str]:
    """How a legend tells them apart: by the names they were given, else by env, variant and what is set otherwise; with
    the token of a run that stands alone."""
    if len(sides) == 1:
        return [sides[0].token]
    given = [side.runs[0].info.name if len(side.runs) == 1 else None for side in sides]
    if all(given) and len(set(given)) == len(given):
        return [str(name) for name in given]
    several = len({env for side in sides for env in side.envs}) > 1
    variants = [" ".join(dict.fromkeys(facts.algo for facts in side.runs)) for side in sides]
    different = {} if several else differing_settings(sides)
    seeds = different.pop("train.seed", None)
    if any(len(side.runs) > 1 for side in sides):
        seeds = None
    changed = {key for side in sides for facts in side.runs for key in facts.changes}
    keys = [key for key in different if key in changed]
    keys = (
        [key for key in keys if not key.startswith(BESIDE)]
        or keys
        or [key for key in different if len(set(variants)) == 1]
    )
    names = []
    for index, side in enumerate(sides):
        parts = [*(side.envs if several else []), *([variants[index]] if len(set(variants)) > 1 else [])]
        values = {key: different[key][index] for key in keys}
        parts += [assignment(*item) for item in values.items() if item[1] != MISSING][:NAMED]
        parts += [f"seed={seeds[index]}"] if seeds is not None else []
        names.append(" ".join([*parts, f"({side.token})" if len(side.runs) == 1 or not parts else ""]).strip())
    return [
        name if names.count(name) == 1 else f"{name} ({side.token})" for name, side in zip(names, sides, strict=True)
    ]


def metric_name(asked: str, sides: Sequence[Side]) -> str:
    """A metric by its name or the unique end of one, that at least one run has."""
    there = list(dict.fromkeys(name for side in sides for facts in side.runs for name in facts.latest))
    matching = [asked] if asked in there else [name for name in there if name.rpartition("/")[2] == asked]
    if len(matching) > 1:
        raise UserError(f"--metric {asked} could be any of: {', '.join(matching)}.")
    if matching:
        return matching[0]
    if not there:
        raise UserError("none of these runs has written metrics yet.")
    if asked in catalogue():
        alike = [name for name in there if name.partition("/")[0] == asked.partition("/")[0]]
        raise UserError(f"none of these runs has {asked}. They have: {', '.join(alike or there)}.")
    ends = [name.rpartition("/")[2] for name in there]
    parts = [f"'{end}'" for end in dict.fromkeys(ends) if asked.lower() in end][:NEAR]
    near = f" Did you mean {' or '.join(parts)}?" if parts else did_you_mean(asked, [*there, *ends])
    raise UserError(
        f"--metric {asked}: there is no such metric.{near} "
        f"`gymnast runs show {sides[0].runs[0].token} --json` lists all under metrics."
    )


def mean_curve(name: str, curves: Sequence[Points]) -> Curve | None:
    """Several runs in one curve: their mean without the extremes, and its 95 % interval.

    A run that ended earlier keeps its last value; the line begins where all of them have one.
    """
    runs = [curve for curve in map(finite, curves) if curve]
    if not runs:
        return None
    if len(runs) == 1:
        return Curve(name, runs[0])
    begin, end = max(curve[0][0] for curve in runs), max(curve[-1][0] for curve in runs)
    grid = np.linspace(min(begin, end), end, GRID)
    columns = [np.array(curve, dtype=np.float64).T for curve in runs]
    values = np.stack([np.interp(grid, steps, scores) for steps, scores in columns], axis=1)
    line = list(zip(grid.tolist(), iqm(values).tolist(), strict=True))
    band = [(float(x), *interval(iqm, row)) for x, row in zip(grid, values, strict=True)]
    return Curve(name, line, band=band, runs=runs)
