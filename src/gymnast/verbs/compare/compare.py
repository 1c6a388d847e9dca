"""`gymnast runs compare`: how runs, or groups of seeds, differ, and what that difference may come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.statistics import area_under_curve, improvement, interval, iqm, median
from gymnast.metrics.rows import STEP
from gymnast.report.run_facts import EVALUATION, EXACT, RETURN, RunFacts
from gymnast.terminal.compare import print_comparison
from gymnast.verbs.compare.reasons import reasons
from gymnast.verbs.compare.sides import Side, differing_settings, find_sides, labels
from gymnast.verbs.runs import brief

CURVES = (EXACT, EVALUATION, RETURN)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Measure = Callable[[RunFacts], float | None]


def compare_runs(refs: Sequence[str], runs_dir: Path, group: str, as_json: bool) -> dict[str, Any]:
    sides = find_sides(refs, runs_dir, group)
    if len(sides) == 1 and len(sides[0].runs) > 1 and not any("," in ref for ref in refs):
        sides = find_sides(refs, runs_dir, "none")  # seeds of one config, held against each other
    if len(sides) == 1 and len(refs) > 1:
        raise UserError(f"{' and '.join(refs)} are all the same run, {sides[0].runs[0].info.id}. Name different ones.")
    if len(sides) > len(LETTERS):
        raise UserError(f"{len(sides)} sides are more than can be shown side by side. Name {len(LETTERS)} or fewer.")
    data = comparison(sides)
    if not as_json:
        print_comparison(data, sides)
    return data


def comparison(sides: Sequence[Side]) -> dict[str, Any]:
    envs = list(dict.fromkeys(env for side in sides for env in side.envs))
    metric = curve_metric(sides)
    estimates = {name: [estimated(name, side, of) for side in sides] for name, of in measures(sides, metric).items()}
    data: dict[str, Any] = {
        "runs": [facts.info.id for side in sides for facts in side.runs],
        "sides": [
            {"name": LETTERS[index], "label": label, "runs": [brief(facts) for facts in side.runs]}
            for index, (label, side) in enumerate(zip(labels(sides), sides, strict=True))
        ],
        "envs": envs,
        "curve": metric,
        "curve_until": common_end(sides, metric),
        "measures": estimates,
        "differences": [] if len(envs) > 1 else [difference(estimates, 0, index) for index in range(1, len(sides))],
        "config": differing_settings(sides),
        "versions": differing_versions(sides),
        "alerts": differing_alerts(sides),
        "history": [[word for facts in side.runs for word in history(facts)] for side in sides],
    }
    data["reasons"] = reasons(data, sides)
    return data


def curve_metric(sides: Sequence[Side]) -> str | None:
    """What all runs have two points of: exact values, else evaluations, else training returns."""
    runs = [facts for side in sides for facts in side.runs]
    return next((name for name in CURVES if all(len(facts.curve(name)) > 1 for facts in runs)), None)


def common_end(sides: Sequence[Side], metric: str | None) -> float | None:
    """How far every run's curve goes: beyond that, a run that was solved early would have no area."""
    if metric is None:
        return None
    return min(facts.curve(metric)[-1][0] for side in sides for facts in side.runs)


def measures(sides: Sequence[Side], metric: str | None) -> dict[str, Measure]:
    end = common_end(sides, metric)

    def area(facts: RunFacts) -> float | None:
        points = [] if metric is None or end is None else [p for p in facts.curve(metric) if p[0] <= end]
        points = [point for point in points if math.isfinite(point[1])]
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


def estimated(name: str, side: Side, measure: Measure) -> dict[str, Any]:
    """The interquartile mean of the runs with its interval; of times the median, as one that never came is endless."""
    values = [value for facts in side.runs if (value := measure(facts)) is not None]
    found: dict[str, Any] = {"value": None, "low": None, "high": None, "values": values}
    if not values:
        return found
    if name.endswith("_threshold"):
        return found | {"value": median(values)}
    found["value"] = float(iqm(values))
    if len(values) > 1:
        found["low"], found["high"] = interval(iqm, values)
    return found


def difference(estimates: dict[str, list[dict[str, Any]]], a: int, b: int) -> dict[str, Any]:
    """What B has more than A; with several runs on both sides its interval, and how likely a run of B is better."""
    result: dict[str, Any] = {"of": LETTERS[b], "from": LETTERS[a]}
    for name, sides in estimates.items():
        mine, theirs = sides[b], sides[a]
        if mine["value"] is None or theirs["value"] is None:
            continue
        found = {"value": mine["value"] - theirs["value"] if math.isfinite(mine["value"] - theirs["value"]) else None}
        if min(len(mine["values"]), len(theirs["values"])) > 1 and not name.endswith("_threshold"):
            low, high = interval(lambda b, a: iqm(b) - iqm(a), mine["values"], theirs["values"])
            found |= {"low": low, "high": high, "chance": float(improvement(mine["values"], theirs["values"]))}
        result[name] = found
    return result


def differing_versions(sides: Sequence[Side]) -> dict[str, list[Any]]:
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
    """What makes a run no plain one from its first step to its end."""
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
