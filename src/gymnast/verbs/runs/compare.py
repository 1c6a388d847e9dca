"""`gymnast runs compare`: how runs, or groups of seeds, differ, and what that difference may come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.statistics import area_under_curve, improvement, interval, iqm, median
from gymnast.metrics.rows import STEP
from gymnast.report.charts.model import finite
from gymnast.report.run_facts import EVALUATION, EXACT, RETURN, RunFacts
from gymnast.verbs.runs.reasons import LETTERS, reasons
from gymnast.verbs.runs.show import brief
from gymnast.verbs.runs.sides import Side, differing_settings, find_sides, labels

CURVES = (EXACT, EVALUATION, RETURN)

Measure = Callable[[RunFacts], float | None]


@dataclass(frozen=True)
class Measured:
    """One measure of a side: what its runs have, and together."""

    values: list[float]
    value: float | None = None
    low: float | None = None  # the 95 % interval, where there are several runs
    high: float | None = None


@dataclass(frozen=True)
class Gap:
    """What one side has more than the first of a measure."""

    value: float | None  # None: one of them never got there
    low: float | None = None  # with several runs on both sides
    high: float | None = None
    chance: float | None = None  # that a run of this side is better than one of the first

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value} if self.chance is None else asdict(self)


@dataclass(frozen=True)
class SideGaps:
    of: str
    gaps: dict[str, Gap]  # by measure

    def to_json(self) -> dict[str, Any]:
        return {"of": self.of, "from": LETTERS[0], **{name: gap.to_json() for name, gap in self.gaps.items()}}


@dataclass(frozen=True)
class Comparison:
    sides: list[Side]  # A, B and so on
    labels: list[str]
    envs: list[str]
    curve: str | None  # the metric that areas and thresholds are measured on
    curve_until: float | None  # env steps that all runs have of it
    measures: dict[str, list[Measured]]  # a value a side
    differences: list[SideGaps]  # from the first side
    config: dict[str, list[Any]]
    versions: dict[str, list[str]]
    alerts: dict[str, list[int]]  # rule: how many runs of each side had it
    history: list[list[str]]

    @property
    def reasons(self) -> list[str]:
        return reasons(self)

    def to_json(self) -> dict[str, Any]:
        sides = zip(LETTERS, self.labels, self.sides, strict=False)
        return {
            "runs": [run.info.id for side in self.sides for run in side.runs],
            "sides": [{"name": n, "label": label, "runs": [brief(run) for run in s.runs]} for n, label, s in sides],
            "envs": self.envs,
            "curve": self.curve,
            "curve_until": self.curve_until,
            "measures": {name: [asdict(side) for side in sides] for name, sides in self.measures.items()},
            "differences": [found.to_json() for found in self.differences],
            "config": self.config,
            "versions": self.versions,
            "alerts": self.alerts,
            "history": self.history,
            "reasons": self.reasons,
        }


def compare_runs(refs: Sequence[str], runs_dir: Path, group: str) -> Comparison:
    sides = find_sides(refs, runs_dir, group)
    if len(sides) == 1 and len(sides[0].runs) > 1 and not any("," in ref for ref in refs):
        sides = find_sides(refs, runs_dir, "none")  # seeds of one config, compared with each other
    if len(sides) == 1 and len(refs) > 1:
        raise UserError(f"{' and '.join(refs)} are all the same run, {sides[0].runs[0].info.id}. Name different ones.")
    if len(sides) > len(LETTERS):
        raise UserError(f"{len(sides)} sides are more than can be shown side by side. Name {len(LETTERS)} or fewer.")
    return comparison(sides)


def comparison(sides: Sequence[Side]) -> Comparison:
    envs = list(dict.fromkeys(env for side in sides for env in side.envs))
    metric = curve_metric(sides)
    measures = {name: [measured(name, side, of) for side in sides] for name, of in measures_of(sides, metric).items()}
    return Comparison(
        sides=list(sides),
        labels=labels(sides),
        envs=envs,
        curve=metric,
        curve_until=common_end(sides, metric),
        measures=measures,
        differences=[] if len(envs) > 1 else [gaps_of(measures, index) for index in range(1, len(sides))],
        config=differing_settings(sides),
        versions=differing_versions(sides),
        alerts=differing_alerts(sides),
        history=[[word for facts in side.runs for word in history(facts)] for side in sides],
    )


def curve_metric(sides: Sequence[Side]) -> str | None:
    """What all runs have two points of: exact values, else evaluations, else training returns."""
    runs = [facts for side in sides for facts in side.runs]
    return next((name for name in CURVES if all(len(facts.curve(name)) > 1 for facts in runs)), None)


def common_end(sides: Sequence[Side], metric: str | None) -> float | None:
    """How far every run's curve goes: beyond that, a run that was solved early would have no area."""
    if metric is None:
        return None
    return min(facts.curve(metric)[-1][0] for side in sides for facts in side.runs)


def measures_of(sides: Sequence[Side], metric: str | None) -> dict[str, Measure]:
    end = common_end(sides, metric)

    def area(facts: RunFacts) -> float | None:
        points = [] if metric is None or end is None else finite(p for p in facts.curve(metric) if p[0] <= end)
        return area_under_curve(points) if points else None

    return {
        "exact": lambda facts: facts.summary.get("exact_value"),
        "score": lambda facts: facts.score,
        "last": lambda facts: facts.latest.get(metric or RETURN),
        "area": area,
        "steps_to_threshold": lambda facts: reached_at(facts, metric, STEP),
        "seconds_to_threshold": lambda facts: reached_at(facts, metric, "time/elapsed"),
        "steps_per_second": lambda facts: facts.env_steps / facts.seconds if facts.seconds else None,
    }


def reached_at(facts: RunFacts, metric: str | None, clock: str) -> float | None:
    """When the curve first was at the threshold; never: infinity."""
    if facts.threshold is None or metric is None:
        return None
    return next((x for x, value in facts.curve(metric, clock) if value >= facts.threshold), math.inf)


def measured(name: str, side: Side, measure: Measure) -> Measured:
    """The interquartile mean of the runs with its interval; of times the median, as one that never came is endless."""
    values = [value for facts in side.runs if (value := measure(facts)) is not None]
    if not values:
        return Measured(values)
    if name.endswith("_threshold"):
        return Measured(values, median(values))
    return Measured(values, float(iqm(values)), *(interval(iqm, values) if len(values) > 1 else ()))


def gaps_of(measures: Mapping[str, Sequence[Measured]], index: int) -> SideGaps:
    """What a side has more than the first; with several runs on both sides its interval and a chance."""
    found = {}
    for name, sides in measures.items():
        mine, first = sides[index], sides[0]
        if mine.value is None or first.value is None:
            continue
        gap = mine.value - first.value if math.isfinite(mine.value - first.value) else None
        if min(len(mine.values), len(first.values)) > 1 and not name.endswith("_threshold"):
            low, high = interval(lambda b, a: iqm(b) - iqm(a), mine.values, first.values)
            found[name] = Gap(gap, low, high, float(improvement(mine.values, first.values)))
        else:
            found[name] = Gap(gap)
    return SideGaps(LETTERS[index], found)


def differing_versions(sides: Sequence[Side]) -> dict[str, list[str]]:
    def of(facts: RunFacts) -> dict[str, str]:
        return {**facts.info.versions, "machine": facts.info.machine, "host": facts.info.host}

    found = [[of(facts) for facts in side.runs] for side in sides]
    keys = dict.fromkeys(key for runs in found for versions in runs for key in versions)
    rows = {key: [sorted({versions.get(key, "") for versions in runs}) for runs in found] for key in keys}
    return {key: [", ".join(side) for side in row] for key, row in rows.items() if any(side != row[0] for side in row)}


def differing_alerts(sides: Sequence[Side]) -> dict[str, list[int]]:
    """Rule: how many runs of each side had it; those that all runs have, or none, are left out."""
    rules = dict.fromkeys(alert.rule for side in sides for facts in side.runs for alert in facts.alerts)
    counts = {
        rule: [sum(any(alert.rule == rule for alert in facts.alerts) for facts in side.runs) for side in sides]
        for rule in rules
    }
    runs = [len(side.runs) for side in sides]
    shares = {rule: {count / n for count, n in zip(row, runs, strict=True)} for rule, row in counts.items()}
    return {rule: row for rule, row in counts.items() if len(shares[rule]) > 1}


def history(facts: RunFacts) -> list[str]:
    """What a run went through besides being trained from its first step to its end."""
    info, token = facts.info, facts.token
    said = [f"{token} started from {info.parent}"] if info.parent else []
    said += (
        [f"{token} was resumed at {', '.join(f'{step:,}' for step in info.resumed_at)} steps"]
        if info.resumed_at
        else []
    )
    endings = {
        "running": f"{token} is still being trained: {facts.env_steps:,} of {facts.total_steps:,} steps so far",
        "interrupted": f"{token} was interrupted at {facts.env_steps:,} of {facts.total_steps:,} steps",
        "killed": f"{token} was killed at {facts.env_steps:,} of {facts.total_steps:,} steps",
        "crashed": f"{token} crashed at {facts.env_steps:,} of {facts.total_steps:,} steps",
    }
    said += [endings[info.status]] if info.status in endings else []
    said += [f"{token} was never evaluated"] if facts.rows and not facts.curve(EVALUATION) else []
    said += [f"{token} has written no metrics"] if not facts.rows else []
    return said
