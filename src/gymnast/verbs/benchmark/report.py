"""From runs to figures: what each row's runs say together, and their learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnast.core.statistics import area_under_curve, estimate, improvement, interval, iqm, median
from gymnast.report.charts.model import Chart, Curve
from gymnast.report.charts.svg import draw
from gymnast.verbs.benchmark.plan import OURS, Row, parse_seeds
from gymnast.verbs.benchmark.results import Record, Store, slug

Summary = dict[str, Any]
MEASURES = {"final": "last agent", "best": "best agent", "area": "area under the curve"}


def summarise(store: Store) -> list[Summary]:
    """Every row that was asked for, with all that its runs say."""
    return [summary_of(row, store.runs_of(row, config)) for row, config in store.rows.values()]


def summary_of(row: Row, runs: dict[str, list[Record]]) -> Summary:
    seeds = sorted({*parse_seeds(row.seeds), *(record["seed"] for records in runs.values() for record in records)})
    asked = len(parse_seeds(row.seeds))
    done = [record for records in runs.values() for record in records]
    sides = {who: side_of(row, records, asked) for who, records in runs.items() if records or who == OURS}
    sides |= {who: side_of(row, [], asked) for who in row.against if who not in sides}
    summary: Summary = {
        "target": row.target,
        "equal_steps": row.equal_steps,
        "steps": done[0]["total_timesteps"] if done else row.steps,
        "bar": row.bar if row.bar is not None else next((record["threshold"] for record in done), None),
        "within": row.within,
        "command": row.command(seeds),
        "sides": sides,
        "notes": sorted({f"{record['who']}: {note}" for record in done for note in record["notes"]}),
        "picture": f"{slug(name_of(row))}.svg" if done else None,
        "improvement": {},
    }
    if row.equal_steps:
        ours = sides[OURS]["values"]
        for who in sides:
            theirs = sides[who]["values"]
            if who != OURS and ours["final"] and theirs["final"]:
                chances = {name: estimate(improvement, ours[name], theirs[name]) for name in MEASURES}
                summary["improvement"][who] = chances
    return summary


def name_of(row: Row) -> str:
    """Of its files: what tells it from the other rows."""
    parts = ["equal-steps" if row.equal_steps else None, row.steps, None if row.bar is None else f"bar {row.bar:g}"]
    return "-".join(str(part) for part in (row.target, *parts, *row.set) if part is not None)


def side_of(row: Row, records: Sequence[Record], asked: int) -> Summary:
    """One contestant's runs of a row together."""
    if row.equal_steps:
        values = {
            "final": [record["final"]["mean"] for record in records],
            "best": [record["verdict"]["mean"] for record in records],
            "area": [area_under_curve(record["curve"]) for record in records],
        }
    else:
        values = {"score": [judged(record) for record in records]}
    side: Summary = {"runs": len(records), "asked": asked, "values": values}
    if not records:
        return side
    score = values["final" if row.equal_steps else "score"]
    bar = row.bar if row.bar is not None else records[0]["threshold"]
    seconds = median([record["solved_seconds"] for record in records])
    return side | {
        "solved": sum(record["solved"] for record in records),
        "median": median(score),
        "iqm": {name: estimate(iqm, numbers) for name, numbers in values.items()},
        "met": None if bar is None else median(score) >= bar,
        "exact": all(record["exact_value"] is not None for record in records) and not row.equal_steps,
        "steps_to_bar": median([record["solved_steps"] for record in records]),
        "seconds_to_bar": seconds,
        "in_time": None if row.within is None else seconds <= row.within,
        "seconds": median([record["seconds"] for record in records]),
        "episodes": records[0]["verdict"]["episodes"],
    }


def judged(record: Record) -> float:
    """What the judged agent is worth: exactly where that is known, else its mean on fresh episodes."""
    exact = record["exact_value"]
    return float(record["verdict"]["mean"] if exact is None else exact)


def overall_improvement(summaries: Sequence[Summary]) -> dict[str, dict[str, Any]]:
    """Over all tasks at equal steps: the mean of their chances, each task and side resampled by itself."""
    found: dict[str, dict[str, Any]] = {}
    for who in dict.fromkeys(who for summary in summaries for who in summary["improvement"]):
        tasks = [summary["sides"] for summary in summaries if who in summary["improvement"]]
        for name in MEASURES:
            samples = [side["values"][name] for sides in tasks for side in (sides[OURS], sides[who])]
            found.setdefault(who, {})[name] = estimate(improvement, *samples)
        found[who]["tasks"] = len(tasks)
    return found


def picture(summary: Summary, runs: dict[str, list[Record]]) -> str:
    """At equal steps the interquartile mean and its interval; else every run, which ends where it was solved."""
    shown = []
    for who, records in runs.items():
        curves = [[(float(steps), float(score)) for steps, score, _ in record["curve"]] for record in records]
        same = len({tuple(steps for steps, _ in curve) for curve in curves}) == 1
        if summary["equal_steps"] and len(curves) > 1 and same:
            columns = [(column[0][0], [score for _, score in column]) for column in zip(*curves, strict=True)]
            line = [(steps, float(iqm(scores))) for steps, scores in columns]
            band = [(steps, *interval(iqm, scores)) for steps, scores in columns]
            shown.append(Curve(who, line, band=band))
        elif curves:
            shown.append(Curve(who, runs=curves))
    return draw(Chart(summary["target"], tuple(shown), summary["bar"]))
