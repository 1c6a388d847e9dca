"""From runs to figures: what each row's runs say together, and their learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.config.facts import CHOSEN, SolvedFact
from gymnast.config.files import is_preset
from gymnast.config.layers import split_target
from gymnast.core.errors import UserError
from gymnast.core.seeds import parse_seeds
from gymnast.core.statistics import Estimate, area_under_curve, improvement, interval, iqm, median
from gymnast.report.charts.model import Chart, Curve, goals
from gymnast.verbs.benchmark.plan import OURS, Row, settle
from gymnast.verbs.benchmark.store import Record, Store, slug
from gymnast.verbs.runs.compare import Gap, Measured, gaps_of

MEASURES = {"final": "last agent", "best": "best agent", "area": "area under the curve"}

Estimates = dict[str, Estimate]  # by measure


@dataclass(frozen=True)
class SideSummary:
    """One library's runs of a row together. All but the first three are None where there is no run."""

    runs: int
    asked: int
    values: dict[str, list[float]]  # by measure: a value a run
    solved: int | None = None
    on_target: int | None = None  # runs that reached stop.target; None: there is none
    median: float | None = None
    iqm: Estimates | None = None
    met: bool | None = None  # the target score, by the median
    exact: bool | None = None  # scores are exact values
    steps_to_target: float | None = None
    seconds_to_target: float | None = None
    in_time: bool | None = None
    seconds: float | None = None
    episodes: int | None = None  # of a verdict
    solved_steps: list[float] = field(default_factory=list)  # a number a run; infinity: never
    wall_to_target: float | None = None  # seconds with evaluations; None: not known of all runs
    reaches_own: int | None = None  # runs whose score is at the env's own threshold, where another one decides


@dataclass(frozen=True)
class RowSummary:
    target: str
    equal_steps: bool
    steps: int | None
    target_score: float | None
    goal: float | None  # stop.target
    within: float | None
    command: str
    sides: dict[str, SideSummary]  # ours first
    notes: list[str]
    picture: str | None
    improvement: dict[str, Estimates]  # over each other library, at equal steps
    nodes: dict[str, list[str]]  # of a cluster: the runs that each has finished
    label: str  # what tells it from other rows
    env: str | None = None  # None where there is no run yet
    runs: list[str] = field(default_factory=list)  # the ids of ours
    own_threshold: float | None = None  # the env's, where the target score is another
    is_ours: bool = False  # the target score is a threshold that was chosen here: none is registered
    before: list[str] = field(default_factory=list)  # batches of seeds that were run before these
    is_outdated: bool = False  # the preset has changed since


def summarise(store: Store) -> list[RowSummary]:
    """Every row that was asked for, with all that its runs say."""
    return [
        summary_of(row, store.runs_of(row, config), store.folder, is_outdated(row, config))
        for row, config in store.rows.values()
    ]


def is_outdated(row: Row, config: str) -> bool:
    """Whether the row's preset means another config today than its runs had. False where that cannot be said here: a
    results.json may be a stranger's, so nothing but presets is read."""
    if row.set or not is_preset(split_target(row.target)[0]):
        return False
    try:
        return settle([row], {})[0].fingerprint != config
    except UserError:
        return False


def summary_of(row: Row, runs: Mapping[str, Sequence[Record]], out: Path, outdated: bool = False) -> RowSummary:
    done = [record for records in runs.values() for record in records]
    seeds = sorted({*parse_seeds(row.seeds), *(record["seed"] for record in done)})
    solved = solved_fact(row, done)
    target = target_score(row, done)
    own = None if solved is None or solved.threshold == target else solved.threshold
    sides = {who: side_of(row, records, own) for who, records in runs.items() if records or who == OURS}
    sides |= {who: side_of(row, []) for who in row.against if who not in sides}
    return RowSummary(
        target=row.target,
        equal_steps=row.equal_steps,
        steps=done[0]["total_timesteps"] if done else row.steps,
        target_score=target,
        goal=next((record["goal"] for record in done if record.get("goal") is not None), None),
        within=row.within,
        command=row.command(seeds, out),
        sides=sides,
        notes=sorted({f"{record['who']}: {note}" for record in done for note in record["notes"]}),
        picture=f"{slug(name_of(row))}.svg" if done else None,
        improvement=improvements(sides) if row.equal_steps else {},
        nodes=nodes_of(done),
        label=row.label,
        env=done[0]["env"] if done else None,
        runs=[record["run"] for record in runs.get(OURS, ()) if "run" in record],
        own_threshold=own,
        is_ours=solved is not None and own is None and solved.source == CHOSEN,
        before=row.before,
        is_outdated=outdated and bool(done),
    )


def nodes_of(records: Sequence[Record]) -> dict[str, list[str]]:
    """The runs that each node of a cluster has finished; one that was begun elsewhere names the nodes that died."""
    found: dict[str, list[str]] = {}
    for record in records:
        *died, last = record.get("nodes") or [None]
        if last is not None:
            name = f"{'' if record['who'] == OURS else record['who'] + ' '}seed {record['seed']}"
            found.setdefault(last, []).append(f"{name} (begun on {', '.join(died)})" if died else name)
    return dict(sorted(found.items()))


def target_score(row: Row, records: Sequence[Record]) -> float | None:
    return row.target_score if row.target_score is not None else next((r["threshold"] for r in records), None)


def solved_fact(row: Row, records: Sequence[Record]) -> SolvedFact | None:
    """What counts as solved in the env of a row that asks whether it is."""
    facts = configs.load_facts(records[0]["env"]) if records and not row.equal_steps else None
    return None if facts is None else facts.solved


def name_of(row: Row) -> str:
    """Of its files: what tells it from the other rows."""
    score = None if row.target_score is None else f"target {row.target_score:g}"
    parts = ["equal-steps" if row.equal_steps else None, row.steps, score]
    return "-".join(str(part) for part in (row.target, *parts, *row.set) if part is not None)


def side_of(row: Row, records: Sequence[Record], own: float | None = None) -> SideSummary:
    """`own`: the env's own threshold, where the row asks for another score."""
    if row.equal_steps:
        values = {
            "final": [record["final"]["mean"] for record in records],
            "best": [record["verdict"]["mean"] for record in records],
            "area": [area_under_curve(record["curve"]) for record in records],
        }
    else:
        values = {"score": [judged(record) for record in records]}
    asked = len(parse_seeds(row.seeds))
    if not records:
        return SideSummary(0, asked, values)
    middle = median(values["final" if row.equal_steps else "score"])
    target = target_score(row, records)
    seconds = median([record["solved_seconds"] for record in records])
    walls = [record.get("solved_wall") for record in records if record["solved"]]
    beyond = [record["on_target"] for record in records if record.get("on_target") is not None]
    return SideSummary(
        runs=len(records),
        asked=asked,
        values=values,
        solved=sum(record["solved"] for record in records),
        on_target=sum(beyond) if beyond else None,
        median=middle,
        iqm={name: Estimate.of(iqm, numbers) for name, numbers in values.items()} | interval_of_one(row, records),
        met=None if target is None else middle >= target,
        exact=all(record["exact_value"] is not None for record in records) and not row.equal_steps,
        steps_to_target=median([record["solved_steps"] for record in records]),
        seconds_to_target=seconds,
        in_time=None if row.within is None else seconds <= row.within,
        seconds=median([record["seconds"] for record in records]),
        episodes=records[0]["verdict"]["episodes"],
        solved_steps=[math.inf if record["solved_steps"] is None else record["solved_steps"] for record in records],
        wall_to_target=None if None in walls else median([*walls, *[None] * (len(records) - len(walls))]),
        reaches_own=None if own is None else sum(value >= own for value in values.get("score", ())),
    )


def interval_of_one(row: Row, records: Sequence[Record]) -> Estimates:
    """A single run has no interval over runs: that of its episodes is shown, and none where there are no episodes."""
    if len(records) > 1:
        return {}
    (record,) = records
    if not row.equal_steps:
        return {} if record["exact_value"] is not None else {"score": of_episodes(record["verdict"])}
    area = Estimate(area_under_curve(record["curve"]), math.nan, math.nan)
    return {"final": of_episodes(record["final"]), "best": of_episodes(record["verdict"]), "area": area}


def of_episodes(measured: Mapping[str, float]) -> Estimate:
    return Estimate(measured["mean"], measured["low"], measured["high"])


def judged(record: Record) -> float:
    """What the judged agent is worth: exactly where that is known, else its mean on fresh episodes."""
    exact = record["exact_value"]
    return float(record["verdict"]["mean"] if exact is None else exact)


def improvements(sides: Mapping[str, SideSummary]) -> dict[str, Estimates]:
    """How likely a run of ours is better than one of each other library's, where both have at least two: a single run
    never varies when it is drawn again, so the interval would be too narrow."""
    ours = sides[OURS].values
    return {
        who: {name: Estimate.of(improvement, ours[name], side.values[name]) for name in MEASURES}
        for who, side in sides.items()
        if who != OURS and min(len(ours["final"]), len(side.values["final"])) > 1
    }


def overall_improvement(summaries: Sequence[RowSummary]) -> dict[str, tuple[int, Estimates]]:
    """Over all tasks at equal steps, by library: how many tasks, and the mean of their chances, each task and side
    resampled by itself."""
    found = {}
    for who in dict.fromkeys(who for summary in summaries for who in summary.improvement):
        tasks = [summary.sides for summary in summaries if who in summary.improvement]
        samples = {
            name: [side.values[name] for sides in tasks for side in (sides[OURS], sides[who])] for name in MEASURES
        }
        found[who] = len(tasks), {name: Estimate.of(improvement, *of) for name, of in samples.items()}
    return found


@dataclass(frozen=True)
class RowGap:
    """What the runs of one row have more than those of another row of the same env, which stands before it."""

    row: str
    against: str
    gaps: dict[str, Gap]  # by measure
    sooner: float  # how likely a run of this row is solved in fewer steps; ties count half

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "gaps": {name: asdict(gap) for name, gap in self.gaps.items()}}


def between(summaries: Sequence[RowSummary]) -> list[RowGap]:
    """Each row compared with the first of its env and kind, where both have several runs of ours."""
    first: dict[Any, RowSummary] = {}
    found = []
    for summary in summaries:
        side = summary.sides[OURS]
        if side.runs < 2:
            continue
        other = first.setdefault((summary.env, summary.equal_steps, summary.equal_steps and summary.steps), summary)
        if other is summary:
            continue
        against = other.sides[OURS]
        pairs = {
            name: [measured(values) for values in (against.values[name], side.values[name])] for name in side.values
        }
        sooner = improvement(*([-steps for steps in one.solved_steps] for one in (side, against)))
        found.append(RowGap(summary.label, other.label, gaps_of(pairs, 1), float(sooner)))
    return found


def measured(values: list[float]) -> Measured:
    return Measured(values, float(iqm(values)))


def chart_of(summary: RowSummary, runs: Mapping[str, Sequence[Record]]) -> Chart:
    """At equal steps the interquartile mean and its interval; else every run, which ends where it was solved."""
    shown = []
    for who, records in runs.items():
        curves = [[(float(steps), float(score)) for steps, score, _ in record["curve"]] for record in records]
        same = len({tuple(steps for steps, _ in curve) for curve in curves}) == 1
        if summary.equal_steps and len(curves) > 1 and same:
            columns = [(column[0][0], [score for _, score in column]) for column in zip(*curves, strict=True)]
            line = [(steps, float(iqm(scores))) for steps, scores in columns]
            band = [(steps, *interval(iqm, scores)) for steps, scores in columns]
            shown.append(Curve(who, line, band=band))
        elif curves:
            shown.append(Curve(who, runs=curves))
    return Chart(summary.target, tuple(shown), goals(summary.target_score, summary.goal))
