"""`gymnast benchmark`: presets over seeds, alone or beside other libraries, and the tables and pictures that result.

Every run is kept the moment it ends. The same command does what is not there yet, so it may be stopped at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.text import Text

from gymnast.core.errors import EnvFailure, Stopped, UserError
from gymnast.core.text import number, score
from gymnast.jobs.pool import ENDS
from gymnast.terminal.format import Cell, Column, output, table
from gymnast.verbs.benchmark.page import seconds, solved_cells, with_interval, write_report
from gymnast.verbs.benchmark.plan import OURS, Row, Task, checked, parse_seeds, read_plan, settle
from gymnast.verbs.benchmark.pool import Trial, run_trials
from gymnast.verbs.benchmark.report import MEASURES, Summary, judged
from gymnast.verbs.benchmark.results import Record, Store, make_record
from gymnast.verbs.speed.libraries import parse_names, parse_pythons
from gymnast.verbs.speed.process import Bar, progress_bar


def benchmark(
    targets: Sequence[str],
    *,
    plan: Path | None = None,
    seeds: str | None = None,
    against: str | None = None,
    pythons: Sequence[str] = (),
    jobs: int = 2,
    out: Path = Path("benchmarks"),
    redo: bool = False,
    report: bool = False,
    quiet: bool = False,
    as_json: bool = False,
    **asked: Any,
) -> dict[str, Any]:
    """`asked` has the other fields of a row: steps, bar, within, equal_steps, set."""
    rows = rows_of(targets, plan, seeds, parse_names(against), asked)
    if not rows and not report:
        raise UserError("name a target like CartPole-v1, a --plan, or say --report.")
    tasks = settle(rows, parse_pythons(pythons))
    store = Store(out)
    store.ask(tasks, first=plan is not None and not targets)
    if redo:
        for task in tasks:
            store.forget(task)
    wanted = [trial for task in tasks for trial in trials_of(task, store)]
    left = [] if report else [trial for trial in wanted if not store.has(trial.task, trial.who, trial.seed)]
    store.save()  # a report made while this runs, or after it was killed, knows its rows
    failures: list[str] = []
    try:
        with progress_bar(quiet) as bar:
            there = len(wanted) - len(left)
            if there and left:
                bar.say(Text(f"{there} of {len(wanted)} runs are there already", style="dim"))
            run_and_keep(left, jobs, store, bar, failures)
    except KeyboardInterrupt:
        store = write_all(out, tasks)[0]
        kept = sum(store.has(trial.task, trial.who, trial.seed) for trial in wanted)
        message = f"stopped; {kept} of {len(wanted)} runs are kept in {out}. The same command does the others."
        raise Stopped(message) from None
    store, summaries, path = write_all(out, tasks)
    keys = [task.row.key for task in tasks]
    mine = [summary for key, summary in zip(store.rows, summaries, strict=True) if key in keys or not keys]
    if not quiet and not as_json:
        print_summaries(mine, path)
    if failures:
        raise EnvFailure(f"{len(failures)} failed: {', '.join(failures)}. The same command tries them again.")
    return {"results": str(path), "ran": len(left), "rows": mine}


def write_all(out: Path, tasks: Sequence[Task]) -> tuple[Store, list[Summary], Path]:
    """From what is on the disk now: another benchmark may have added to it."""
    store = Store(out)
    store.ask(tasks)
    return store, *write_report(store)


def rows_of(
    targets: Sequence[str], plan: Path | None, seeds: str | None, against: Sequence[str], asked: dict[str, Any]
) -> list[Row]:
    given = {key: value for key, value in asked.items() if value} | ({"against": list(against)} if against else {})
    given |= {"bar": asked["bar"]} if asked.get("bar") is not None else {}  # 0 is a bar, too
    if seeds is not None:
        try:
            parse_seeds(seeds)
        except ValueError as error:
            raise UserError(f"--seeds {seeds}: {error}") from None
    if plan is None:
        given |= {} if seeds is None else {"seeds": seeds}
        return [checked(Row, {"target": target, **given}, "command line") for target in targets]
    if given:
        options = ", ".join(f"--{key.replace('_', '-')}" for key in given)
        raise UserError(f"{options}: stands in the plan file, row by row. Beside --plan only --seeds is taken.")
    return read_plan(plan, targets, seeds)


def trials_of(task: Task, store: Store) -> list[Trial]:
    """Seed by seed, so that half of the runs is half of the seeds for everybody."""
    sides = {OURS: None, **{rival.name: rival for rival in task.opponents}}
    seeds = parse_seeds(task.row.seeds)
    return [Trial(task, seed, sides[who], store.scratch(task, who, seed)) for seed in seeds for who in sides]


def run_and_keep(trials: Sequence[Trial], at_once: int, store: Store, bar: Bar, failures: list[str]) -> None:
    bar.plan(sum(trial.steps for trial in trials))
    reached = dict.fromkeys(trials, 0)
    ended = 0
    with closing(run_trials(trials, at_once)) as events:
        for trial, event in events:
            steps = min(event.data["steps"], trial.steps) if event.kind == "event" else trial.steps
            bar.done(steps - reached[trial])
            reached[trial] = steps
            if event.kind in ENDS:
                ended += 1
                share = f"{ended} of {len(trials)}"
                if event.kind == "result":
                    notes = [] if trial.opponent is None else trial.opponent.notes
                    record = make_record(trial.task, trial.who, trial.seed, event.data, notes)
                    store.keep(record)
                    bar.say(Text(f"{share}  {trial.name}: {told(record)}"))
                else:
                    failures.append(trial.name)
                    bar.say(Text(f"{share}  {trial.name}: {event.data['why']}", style="red"))
            bar.step(f"{ended} of {len(trials)} runs · {trial.task.row.target}")


def told(record: Record) -> str:
    """A run in a few words."""
    reached = number(judged(record) if record["final"] is None else record["final"]["mean"])
    if record["solved"]:
        return f"{reached}, solved at {record['solved_steps']:,} steps in {record['solved_seconds']:,.1f} s"
    return f"{reached}, not solved in {record['env_steps']:,} steps, {record['seconds']:,.1f} s"


def print_summaries(summaries: Sequence[Summary], path: Path) -> None:
    console = output()
    solving = [summary for summary in summaries if not summary["equal_steps"]]
    equal = [summary for summary in summaries if summary["equal_steps"]]
    if solving:
        rows: list[list[Cell]] = [
            [summary["target"], who, *solved_cells(summary, side)]
            for summary in solving
            for who, side in summary["sides"].items()
        ]
        names = ("median score", "IQM [95 %]", "bar", "steps", "seconds")
        columns = [Column("target"), Column("who"), Column("solved"), *(Column(name, right=True) for name in names)]
        console.print(table(console, columns, rows))
    for summary in equal:
        console.print(Text(f"{summary['target']}, {number(summary['steps'])} steps", style="bold"))
        lines: list[list[Cell]] = []
        for who, side in summary["sides"].items():
            found = [with_interval(side["iqm"][name]) if side["runs"] else "" for name in MEASURES]
            time = seconds(side["seconds"]) if side["runs"] else ""
            lines.append([who, str(side["runs"]), *found, time])
        for who, chances in summary["improvement"].items():
            found = [with_interval(chances[name], score) for name in MEASURES]
            lines.append([f"chance to beat {who}", "", *found, ""])
        titles = ("runs", *(f"{name}, IQM [95 %]" for name in MEASURES.values()), "seconds")
        console.print(table(console, [Column(""), *(Column(title, right=True) for title in titles)], lines))
    console.print(f"wrote {path}")
