"""`gymnast runs compare` for people, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from gymnast.core.text import ago, duration, number, or_never, setting, sparkline
from gymnast.report.run_facts import RETURN, RunFacts
from gymnast.terminal.format import Cell, Column, output, section, status_text, table, yes_no
from gymnast.verbs.runs.compare import Comparison
from gymnast.verbs.runs.reasons import LETTERS, reasons

CURVE = 24  # columns


def print_comparison(data: Comparison) -> None:
    console = output()
    sides = [Column(f"{name}: {side.token}") for name, side in zip(LETTERS, data.sides, strict=False)]
    rows = [row for row in (*_identity(data), *_numbers(data), *_curves(data)) if any(map(str, row[1:]))]
    console.print(table(console, [Column("", style="dim"), *sides], rows))
    different = {key: row for key, row in data.config.items() if key != "train.seed"}
    for title, found in (
        ("settings that differ", [[key, *map(setting, row)] for key, row in different.items()]),
        ("versions that differ", [[key, *row] for key, row in data.versions.items()]),
        ("runs with an alert", [[rule, *map(str, row)] for rule, row in data.alerts.items()]),
    ):
        if found:
            console.print()
            console.print(table(console, [Column(title, style="dim"), *sides], found))
    if len(data.sides) > 1 and not different:
        console.print("\nno setting differs but the seed")
    history = [word for side in data.history for word in side]
    for title, lines in (("history", history), ("why", reasons(data))):
        section(console, title, *map(Text, lines), soft_wrap=True)


def _identity(data: Comparison) -> list[list[Cell]]:
    sides = [side.runs for side in data.sides]

    def each(text: Callable[[RunFacts], str]) -> list[str]:
        return [", ".join(dict.fromkeys(text(run) for run in runs)) for runs in sides]

    statuses = [list(dict.fromkeys(run.info.status for run in runs)) for runs in sides]
    seconds = [[run.seconds for run in runs if run.seconds is not None] for runs in sides]
    scored_in: list[Cell] = [*each(lambda run: run.evaluated_on or run.info.env)]
    return [
        ["env", *each(lambda run: run.info.env)],
        *([["evaluated on", *scored_in]] if any("(eval.env)" in str(name) for name in scored_in) else []),
        ["algo", *each(lambda run: run.algo)],
        ["seed", *each(lambda run: str(run.info.seed))],
        ["status", *(status_text(found[0]) if len(found) == 1 else ", ".join(found) for found in statuses)],
        ["solved", *map(_solved, sides)],
        ["steps", *(_range([run.env_steps for run in runs], number) for runs in sides)],
        ["time", *(_range(known, duration) for known in seconds)],
        ["created", *(ago(runs[0].info.created) for runs in sides)],
    ]


def _solved(runs: Sequence[RunFacts]) -> Cell:
    known = [run.solved for run in runs if run.solved is not None]  # None: there is no threshold
    return f"{sum(known)} of {len(runs)}" if known and len(runs) > 1 else yes_no(runs[0].solved)


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    if not values:
        return ""
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def _numbers(data: Comparison) -> list[list[Cell]]:
    until = "" if data.curve_until is None else f" to {data.curve_until:,.0f} steps"
    titles: dict[str, tuple[str, Callable[[float], str]]] = {
        "exact": ("exact value", _score),
        "score": ("score", _score),
        "last": (f"last {data.curve or RETURN}", _score),
        "area": (f"mean height{until}", _score),
        "steps_to_threshold": ("steps to threshold", number),
        "seconds_to_threshold": ("time to threshold", duration),
        "steps_per_second": ("steps/s", "{:,.0f}".format),
    }
    rows: list[list[Cell]] = []
    for name, (title, text) in titles.items():
        cells: list[Cell] = []
        for found in data.measures[name]:
            said = or_never(found.value, text)
            if found.low is not None and found.high is not None:
                said += f" [{text(found.low)}, {text(found.high)}]"
            cells.append(Text(said, style="bold") if name == "score" else said)
        rows.append([title, *cells])
        if name == "score":
            rows.append(["verdict's 95% interval", *_intervals(data)])
    return rows


def _score(value: float) -> str:
    """Small scores are shares and the like, whose second decimal says little."""
    return f"{value:,.{2 if abs(value) >= 10 else 4}f}"


def _intervals(data: Comparison) -> list[str]:
    """Of a single run's episodes; of several runs the interval over seeds says more."""
    ends = [side.runs[0].summary.get("interval") if len(side.runs) == 1 else None for side in data.sides]
    return [f"{_score(pair[0])} to {_score(pair[1])}" if pair else "" for pair in ends]


def _curves(data: Comparison) -> list[list[Cell]]:
    curves = [[value for _, value in side.runs[0].curve(RETURN)] for side in data.sides]
    first = "" if all(len(side.runs) == 1 for side in data.sides) else " of the first run"
    return [
        [f"training return{first}", *(Text(sparkline(curve, CURVE), style="cyan") for curve in curves)],
        ["  from, to", *(f"{curve[0]:,.2f}, {curve[-1]:,.2f}" if curve else "" for curve in curves)],
    ]
