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
from gymnast.verbs.runs.sides import Side, by_side, differing, differing_settings, find_sides, labels

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
class Comparison:
    sides: list[Side]  # A, B and so on
    labels: list[str]
    envs: list[str]
    curve: str | None  # the metric that areas and thresholds are measured on
    curve_until: float | None  # env steps that all runs have of it
    measures: dict[str, list[Measured]]  # a value a side
    differences: list[dict[str, Gap]]  # by measure, of each side but the first from the first
    config: dict[str, list[Any]]
    versions: dict[str, list[str]]
    alerts: dict[str, list[int]]  # rule: how many runs of each side had it
    history: list[list[str]]

    def to_json(self) -> dict[str, Any]:
        sides = zip(LETTERS, self.labels, self.sides, strict=False)
        return {
            **{name: value for name, value in vars(self).items() if name != "labels"},
            "runs": [run.info.id for side in self.sides for run in side.runs],
            "sides": [{"name": n, "label": label, "runs": [brief(run) for run in s.runs]} for n, label, s in sides],
            "measures": {name: [asdict(side) for side in sides] for name, sides in self.measures.items()},
            "differences": [
                {"of": name, "from": LETTERS[0], **{measure: gap.to_json() for measure, gap in gaps.items()}}
                for name, gaps in zip(LETTERS[1:], self.differences, strict=False)
            ],
            "reasons": reasons(self),
        }


def compare_runs(refs: Sequence[str], runs_dir: Path, group: str) -> Comparison:
    sides = find_sides(refs, runs_dir, group)
    if len(sides) == 1 and len(sides[0].all) > 1 and not any("," in ref for ref in refs):
        sides = find_sides(refs, runs_dir, "none")  # seeds of one config, compared with each other
    if len(sides) == 1 and len(refs) > 1:
        raise UserError(f"{' and '.join(refs)} are all the same run, {sides[0].runs[0].info.id}. Name different ones.")
    if len(sides) > len(LETTERS):
        raise UserError(f"{len(sides)} sides are more than can be shown side by side. Name {len(LETTERS)} or fewer.")
    return comparison(sides)


def comparison(sides: Sequence[Side]) -> Comparison:
    envs = list(dict.fromkeys(env for side in sides for env in side.envs))
    metric = curve_metric(sides)
    # How far every run's curve goes: beyond that, a run that was solved early would have no area
    end = None if metric is None else min(facts.curve(metric)[-1][0] for side in sides for facts in side.runs)
    taken = measures_of(metric, end)
    measures = {name: [measured(name, side, of) for side in sides] for name, of in taken.items()}
    return Comparison(
        sides=list(sides),
        labels=labels(sides),
        envs=envs,
        curve=metric,
        curve_until=end,
        measures=measures,
        differences=[] if len(envs) > 1 else [gaps_of(measures, index) for index in range(1, len(sides))],
        config=differing_settings(sides),
        versions=differing_versions(sides),
        alerts=differing_alerts(sides),
        history=[[*side.notes, *(word for facts in side.all for word in history(facts))] for side in sides],
    )


def curve_metric(sides: Sequence[Side]) -> str | None:
    """What all runs have two points of: exact values, else evaluations, else training returns."""
    runs = [facts for side in sides for facts in side.runs]
    return next((name for name in CURVES if all(len(facts.curve(name)) > 1 for facts in runs)), None)


def measures_of(metric: str | None, end: float | None) -> dict[str, Measure]:
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


def gaps_of(measures: Mapping[str, Sequence[Measured]], index: int) -> dict[str, Gap]:
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
    return found


def differing_versions(sides: Sequence[Side]) -> dict[str, list[str]]:
    found = by_side(sides, lambda run: {**run.info.versions, "machine": run.info.machine, "host": run.info.host})
    return differing({key: [", ".join(sorted({v or "" for v in side})) for side in row] for key, row in found.items()})


def differing_alerts(sides: Sequence[Side]) -> dict[str, list[int]]:
    """Rule: how many runs of each side had it; those that all runs have, or none, are left out."""
    had = by_side(sides, lambda facts: {alert.rule: 1 for alert in facts.alerts})
    shares = differing({rule: [sum(map(bool, side)) / len(side) for side in row] for rule, row in had.items()})
    return {rule: [sum(map(bool, side)) for side in had[rule]] for rule in shares}


def history(facts: RunFacts) -> list[str]:
    """What a run went through besides being trained from its first step to its end."""
    info, steps = facts.info, f"{facts.env_steps:,} of {facts.total_steps:,} steps"
    endings = {
        "running": f"is still being trained: {steps} so far",
        "interrupted": f"was interrupted at {steps}",
        "killed": f"was killed at {steps}",
        "crashed": f"crashed at {steps}",
    }
    resumed = ", ".join(f"{step:,}" for step in info.resumed_at)
    said = {
        f"started from {info.parent}": info.parent,
        f"was resumed at {resumed} steps": resumed,
        endings.get(info.status, ""): info.status in endings,
        "was never evaluated": facts.rows and not facts.curve(EVALUATION),
        "has written no metrics": not facts.rows,
    }
    return [f"{facts.token} {words}" for words, is_so in said.items() if is_so]
