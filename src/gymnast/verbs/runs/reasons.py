"""Why one side is better than another, in sentences: first what is better and how surely, then what differs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gymnast.core.text import duration, setting
from gymnast.report.run_facts import RETURN

if TYPE_CHECKING:
    from gymnast.verbs.runs.compare import Comparison, Gap

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # what sides are called
SHOWN = 6  # settings named in a sentence; the table has all


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
    words = "equals A" if gap.value == 0 else f"is {'better' if gap.value > 0 else 'worse'} than A"
    digits = 2 if max(abs(a.value), abs(b.value)) >= 10 else 4
    line = f"{who} {words}: {name} {b.value:,.{digits}f} against {a.value:,.{digits}f} ({gap.value:+,.{digits}f})."
    if gap.low is not None and gap.high is not None:
        sure = "the interval includes 0: it may be chance" if gap.low <= 0 <= gap.high else "the interval excludes 0"
        line += f" 95 % interval of the difference {gap.low:+,.{digits}f} to {gap.high:+,.{digits}f}, {sure};"
        line += f" a run of {who} is better than one of A with probability {gap.chance:.2f}."
    elif gap.value:
        alone = " and ".join(side for side, of in (("A", a), (who, b)) if len(of.values) == 1)
        line += f" Of {alone} there is one run: a seed alone can make such a difference."
    return [line]


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
        return [f"{name} and A have the same settings except the seed."]
    shown = [f"{key} {setting(b)} instead of {setting(a)}" for key, (a, b) in list(pairs.items())[:SHOWN]]
    more = f", and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    return [f"{name} has {', '.join(shown)}{more}."]


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
