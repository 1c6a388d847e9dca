"""`gymnast benchmark`: presets over seeds, alone or with other libraries, and the tables and pictures that result.

Every run is kept the moment it ends. The same command does what is not there yet, so it may be stopped at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast.core.errors import Lost, Stopped, UserError
from gymnast.core.seeds import parse_seeds
from gymnast.core.text import number
from gymnast.jobs.launchers import open_launcher
from gymnast.jobs.pool import ENDS, Launcher
from gymnast.runs.folder import default_runs_dir, new_token, run_id
from gymnast.verbs.benchmark.page import write_report
from gymnast.verbs.benchmark.plan import OUT, Row, Task, checked, read_plan, settle
from gymnast.verbs.benchmark.pool import Trial, run_trials
from gymnast.verbs.benchmark.store import Record, Store, make_record
from gymnast.verbs.benchmark.summary import RowGap, RowSummary, between, judged
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.speed.libraries import parse_names, parse_paths

LOCAL_JOBS = 2  # runs at the same time on this machine


@dataclass(frozen=True)
class Benchmarked:
    results: Path  # the page
    ran: int  # runs that were missing
    rows: list[RowSummary]
    differences: list[RowGap]  # between rows of the same env
    failed: list[str]  # names of runs

    def to_json(self) -> dict[str, Any]:
        rows, gaps = [asdict(row) for row in self.rows], [gap.to_json() for gap in self.differences]
        return {"results": str(self.results), "ran": self.ran, "rows": rows, "differences": gaps}


def benchmark(
    targets: Sequence[str],
    *,
    plan: Path | None = None,
    seeds: str | None = None,
    against: str | None = None,
    pythons: Sequence[str] = (),
    jobs: int | None = None,
    on: str | None = None,
    out: Path = OUT,
    runs_dir: Path | None = None,
    redo: bool = False,
    report: bool = False,
    progress: Progress = SILENT,
    **asked: Any,
) -> Benchmarked:
    """`asked` has the other fields of a row: steps, target_score, within, equal_steps, set. `runs_dir` is for our
    runs."""
    rows = rows_of(targets, plan, seeds, parse_names(against), asked)
    if not rows and not report:
        raise UserError("name a target like CartPole-v1, a --plan, or say --report.")
    tasks = settle(rows, parse_paths("--python", pythons))
    launcher = open_launcher(None if report else on)  # before anything is written
    store = Store(out)
    store.ask(tasks, first=plan is not None and not targets)
    if redo:
        for task in tasks:
            store.forget(task)
    runs_dir = default_runs_dir() if runs_dir is None else runs_dir
    tokens: set[str] = set()
    wanted = [trial for task in tasks for trial in trials_of(task, runs_dir.absolute(), tokens)]
    left = [] if report else [trial for trial in wanted if not store.has(trial.task, trial.who, trial.seed)]
    store.save()  # a report made while this runs, or after it was killed, knows its rows
    if 0 < len(left) < len(wanted):
        progress.say(f"{len(wanted) - len(left)} of {len(wanted)} runs are there already")
    try:
        at_once = jobs or (launcher.room(cores=1) if on else LOCAL_JOBS)
        failed = run_and_keep(left, at_once, launcher, store, progress)
    except (KeyboardInterrupt, Lost) as end:
        store = write_all(out, tasks)[0]
        kept = sum(store.has(trial.task, trial.who, trial.seed) for trial in wanted)
        said = f"{kept} of {len(wanted)} runs are kept in {out}. The same command does the others."
        raise (UserError(f"{end}; {said}") if isinstance(end, Lost) else Stopped(f"stopped; {said}")) from None
    store, summaries, path = write_all(out, tasks)
    keys = [task.row.key for task in tasks]
    mine = [summary for key, summary in zip(store.rows, summaries, strict=True) if key in keys or not keys]
    return Benchmarked(path, len(left), mine, between(mine), failed)


def write_all(out: Path, tasks: Sequence[Task]) -> tuple[Store, list[RowSummary], Path]:
    """From what is on the disk now: another benchmark may have added to it."""
    store = Store(out)
    store.ask(tasks)
    return store, *write_report(store)


def rows_of(
    targets: Sequence[str], plan: Path | None, seeds: str | None, against: Sequence[str], asked: dict[str, Any]
) -> list[Row]:
    given = {key: value for key, value in asked.items() if value} | ({"against": list(against)} if against else {})
    given |= {"target_score": asked["target_score"]} if asked.get("target_score") is not None else {}  # 0 is one, too
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
        raise UserError(f"{options}: stands in the plan file, row by row. Besides --plan only --seeds is taken.")
    return read_plan(plan, targets, seeds)


def trials_of(task: Task, runs_dir: Path, tokens: set[str]) -> list[Trial]:
    """Seed by seed, so that half of the runs is half of the seeds for everybody. `tokens`: that runs have by now."""
    config, trials = task.config, []
    for seed in parse_seeds(task.row.seeds):
        tokens.add(token := new_token(runs_dir, tokens))
        trials.append(Trial(task, seed, None, runs_dir / run_id(token, config.env.id, config.algo.name, seed)))
        trials += [Trial(task, seed, baseline, None) for baseline in task.baselines]
    return trials


def run_and_keep(
    trials: Sequence[Trial], at_once: int, launcher: Launcher, store: Store, progress: Progress
) -> list[str]:
    """The names of those that failed."""
    progress.plan(sum(trial.steps for trial in trials))
    reached = dict.fromkeys(trials, 0)
    nodes: dict[Trial, list[str]] = {trial: [] for trial in trials}
    ended, failed = 0, []
    with closing(run_trials(trials, at_once, launcher)) as events:
        for trial, event in events:
            if event.kind == "placed":
                if event.data["node"] not in nodes[trial][-1:]:  # its process may have been started again there
                    nodes[trial].append(event.data["node"])
                why = f" ({event.data['why']})" if "why" in event.data else ""
                progress.say(f"{trial.name}: on {event.data['node']}{why}")
                continue
            steps = min(event.data["steps"], trial.steps) if event.kind == "event" else trial.steps
            progress.done(steps - reached[trial])
            reached[trial] = steps
            if event.kind in ENDS:
                ended += 1
                share = f"{ended} of {len(trials)}"
                if event.kind == "result":
                    notes = [] if trial.baseline is None else trial.baseline.notes
                    run = None if trial.run is None else trial.run.name
                    record = make_record(trial.task, trial.who, trial.seed, event.data, notes, nodes[trial], run)
                    store.keep(record)
                    progress.say(f"{share}  {trial.name}: {brief(record)}")
                else:
                    failed.append(trial.name)
                    progress.say(f"{share}  {trial.name}: {event.data['why']}", failed=True)
            progress.step(f"{ended} of {len(trials)} runs · {trial.task.row.target}")
    return failed


def brief(record: Record) -> str:
    """A run in a few words."""
    reached = number(judged(record) if record["final"] is None else record["final"]["mean"])
    if record["solved"]:
        return f"{reached}, solved at {record['solved_steps']:,} steps in {record['solved_seconds']:,.1f} s"
    return f"{reached}, not solved in {record['env_steps']:,} steps, {record['seconds']:,.1f} s"
