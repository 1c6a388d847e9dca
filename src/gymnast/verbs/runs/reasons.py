"""Why one side is better than another, in sentences: first what is better and how surely, then what differs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gymnast.core.text import duration, setting
from gymnast.report.run_facts import RETURN
from gymnast.verbs.runs.sides import MISSING

if TYPE_CHECKING:
    from gymnast.verbs.runs.compare import Comparison, Gap

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # what sides are called
SHOWN = 6  # settings named in a sentence; the table has all
ORDERS = 40  # in which runs can stand: with fewer, chance alone puts all of one side first in more than 5 % of cases


def reasons(data: Comparison) -> list[str]:
    if len(data.sides) < 2:
        return ["Name a second run to compare it with."]
    if len(data.envs) > 1:
        return [f"Runs of different envs ({', '.join(data.envs)}): their scores do not compare."]
    said = []
    for index, gaps in enumerate(data.differences, start=1):
        said += _better(data, gaps, index)
        for about in (_sooner, _longer, _settings, _versions, _alerts):
            said += about(data, index)
    return said


def _better(data: Comparison, gaps: dict[str, Gap], index: int) -> list[str]:
    height = f"mean {data.curve} over the first {data.curve_until or 0:,.0f} steps"
    titles = {"exact": "exact value", "score": "score", "area": height, "last": "last training return"}
    measure = next((key for key in titles if key in gaps), None)
    if measure is None:
        return [f"{LETTERS[index]} and A have no score in common: nothing says which is better."]
    a, b = (data.measures[measure][side] for side in (0, index))
    gap, who, name = gaps[measure], LETTERS[index], titles[measure]
    assert a.value is not None
    assert b.value is not None
    if gap.value is None:
        return [f"{name}: {b.value:g} of {who} against {a.value:g} of A."]
    digits = 2 if max(abs(a.value), abs(b.value)) >= 10 else 4

    def amounts(*values: float | None) -> str:
        return " to ".join(f"{value:,.{digits}f}" for value in values if value is not None)

    numbers = f"{name} {amounts(b.value)} of {who} against {amounts(a.value)} of A"
    if gap.low is not None and gap.high is not None:
        between = f"95 % interval of the difference {amounts(gap.low, gap.high)}"
        chance = f"a run of {who} is better than one of A with probability {gap.chance:.2f}"
        if gap.low <= 0 <= gap.high:
            return [f"No difference can be seen: {numbers}; {between} includes 0; {chance}."]
        if math.comb(len(a.values) + len(b.values), len(a.values)) < ORDERS:
            few = f"{len(b.values)} and {len(a.values)} runs are too few to show a difference, 4 a side can"
            return [f"No difference is shown: {numbers}; {few}; {chance}."]
        return [f"{who} is {'better' if gap.value > 0 else 'worse'} than A: {numbers}; {between}; {chance}."]
    alone = " and ".join(side for side, of in (("A", a), (who, b)) if len(of.values) == 1)
    has, each = ("have", " each") if " and " in alone else ("has", "")
    seeds = f" {alone} {has} only one run{each}: another seed alone can make such a difference." if gap.value else ""
    if gap.value == 0:
        return [f"No difference can be seen: {numbers}."]
    if measure == "exact":
        return [f"The agent of {who} is {'better' if gap.value > 0 else 'worse'} than A's: {numbers}.{seeds}"]
    ends: list[Any] = [data.sides[side].runs[0].summary.get("interval") for side in (0, index)]
    if measure != "score" or not all(ends) or max(len(a.values), len(b.values)) > 1:
        return [f"No difference is shown: {numbers}.{seeds}"]
    numbers += f", 95 % intervals {amounts(*ends[1])} and {amounts(*ends[0])}"
    if max(low for low, _ in ends) <= min(high for _, high in ends):
        return [f"No difference can be seen between their agents: {numbers}."]
    return [f"The agent of {who} is {'better' if gap.value > 0 else 'worse'} than A's: {numbers}.{seeds}"]


def _sooner(data: Comparison, index: int) -> list[str]:
    a, b = (data.measures["steps_to_threshold"][side].value for side in (0, index))
    if a is None or b is None or a == b:
        return []
    times = [data.measures["seconds_to_threshold"][side].value for side in (0, index)]
    words = [
        "never did" if not math.isfinite(steps) else f"after {steps:,.0f} steps ({duration(seconds or 0.0)})"
        for steps, seconds in zip((a, b), times, strict=True)
    ]
    what = "The training return" if data.curve == RETURN else "An evaluation"
    return [f"{what} reached the threshold: {LETTERS[index]} {words[1]}, A {words[0]}."]


def _longer(data: Comparison, index: int) -> list[str]:
    a, b = (max(facts.env_steps for facts in data.sides[side].runs) for side in (0, index))
    if not min(a, b) or 0.9 < b / a < 1.1:
        return []
    return [f"{LETTERS[index]} trained for {b:,} steps, A for {a:,}."]


def _settings(data: Comparison, index: int) -> list[str]:
    name = LETTERS[index]
    pairs = {key: (values[0], values[index]) for key, values in data.config.items() if key != "train.seed"}
    pairs = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    if not pairs:
        seeds = [{facts.info.seed for facts in data.sides[side].runs} for side in (0, index)]
        if seeds[0] & seeds[1]:
            return [f"{name} and A have the same settings and seed: a repeat, which says nothing about other seeds."]
        return [f"{name} and A have the same settings except the seed."]
    shown = [_setting(key, a, b) for key, (a, b) in list(pairs.items())[:SHOWN]]
    more = f", and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    return [f"{name} has {', '.join(shown)}{more}."]


def _setting(key: str, a: Any, b: Any) -> str:
    if b == MISSING:
        return f"no {key} (A: {setting(a)})"
    return f"{key} {setting(b)}" + (", which A has not" if a == MISSING else f" instead of {setting(a)}")


def _versions(data: Comparison, index: int) -> list[str]:
    pairs = {key: (values[0], values[index]) for key, values in data.versions.items() if values[0] != values[index]}
    if not pairs:
        return []
    words = ", ".join(f"{key} {b or 'none'} instead of {a or 'none'}" for key, (a, b) in pairs.items())
    return [f"{LETTERS[index]} ran with {words}."]


def _alerts(data: Comparison, index: int) -> list[str]:
    said = []
    for mine, theirs in ((0, index), (index, 0)):
        rules = [rule for rule, counts in data.alerts.items() if counts[mine] and not counts[theirs]]
        if rules:
            said.append(f"Only {LETTERS[mine]}, not {LETTERS[theirs]}, had the alerts {', '.join(rules)}.")
    return said
