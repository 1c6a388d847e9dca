"""`gymnast runs list|show|delete|zip|import` for people."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from itertools import compress

from rich.console import Console
from rich.text import Text

from gymnast.alerts.text import report
from gymnast.core.text import ago, assignment, duration, number, score, setting, utc
from gymnast.metrics.rows import STEP
from gymnast.report.charts.text import draw
from gymnast.report.page import return_chart
from gymnast.report.run_facts import RETURN, UNFINISHED, RunFacts
from gymnast.report.verdict import RELATIVE, agent_text, episodes_text, goal_text, stop_text, task_lines
from gymnast.runs.references import runs_dir_option
from gymnast.sinks.console.panels import Dashboard
from gymnast.terminal.format import Cell, Column, facts_grid, output, panel_width, right, status_text, table, yes_no
from gymnast.terminal.summary import stage_text
from gymnast.verbs.result import Facts
from gymnast.verbs.runs.show import RunsList, ShownRun

LIST: tuple[tuple[Column, Callable[[RunFacts], Cell]], ...] = (
    (Column("run", style="bold"), lambda run: run.token),
    (Column("name"), lambda run: run.info.name or ""),
    (Column("env"), lambda run: run.info.env),
    (Column("algo", drop=2), lambda run: run.algo),
    (Column("seed", right=True, drop=4), lambda run: str(run.info.seed)),
    (Column("status"), lambda run: status_text(run.info.status)),
    (Column("score", right=True), lambda run: _score(run)),
    (Column("solved", drop=1), lambda run: yes_no(run.solved)),
    (Column("steps", right=True, drop=3), lambda run: number(run.env_steps)),
    (Column("time", right=True, drop=6), lambda run: "" if run.seconds is None else duration(run.seconds)),
    (Column("created", drop=5), lambda run: ago(run.info.created)),
    (Column("changed", wraps=24), lambda run: ", ".join(assignment(*item) for item in run.changes.items())),
    (Column("tags", wraps=8, style="dim", drop=1), lambda run: ", ".join(run.info.tags)),
)
ASIDE = ("name", "changed", "tags")  # columns that are left out where no run has anything in them


def print_list(result: RunsList) -> None:
    console = output()
    if result.runs:
        rows = [[cell(run) for _, cell in LIST] for run in result.runs]
        columns = zip(LIST, *rows, strict=True)
        filled = [column.title not in ASIDE or any(map(str, cells)) for (column, _), *cells in columns]
        shown = [list(compress(row, filled)) for row in rows]
        console.print(table(console, [column for column, _ in compress(LIST, filled)], shown))
    elif result.total:
        console.print(f"none of the {result.total} runs in {result.folder} fits")
    else:
        console.print(f"no runs in {result.folder} yet: start one with `gymnast train CartPole-v1`", soft_wrap=True)


def _score(run: RunFacts) -> Cell:
    """Of a run without an evaluation, the return of its last training episodes; of one with several tasks, each's."""
    known = {name: task["score"] for name, task in run.summary.get("tasks", {}).items() if task["score"] is not None}
    if known:
        return ", ".join(f"{name} {score(value)}" for name, value in known.items())
    if run.score is not None or run.training_return is None:
        return score(run.score) + (" (eval.env)" if run.summary.get("evaluated_on") else "")
    return Text(f"{score(run.training_return)} in training", style="dim")


def print_deleted(result: Facts) -> None:
    for run in result.data["deleted"]:
        print(f"deleted {run}")


def print_stopped(result: Facts) -> None:
    for run in result.data["stopped"]:
        print(f"stopping {run}: it ends after its current update and can be resumed")


def print_tags(result: Facts) -> None:
    for run, tags in result.data["tags"].items():
        print(f"{run}  {' '.join(tags) or 'no tags'}")


def print_zipped(result: Facts) -> None:
    print(f"wrote {result.data['zip']}")


def print_imported(result: Facts) -> None:
    print(f"imported {result.data['run']}")


def print_run(result: ShownRun) -> None:
    facts, console = result.facts, output()
    info = facts.info
    console.print(Text().append(info.id, style="bold").append("  ").append_text(status_text(info.status)))
    console.print(facts_grid(_about(facts)))
    console.print()
    _print_checkpoints(console, facts)
    if not facts.rows:
        console.print("\nno metrics yet")
        return
    for line in ["", *picture] if (picture := draw(return_chart(facts), panel_width(console))) else ():
        console.print(line)
    console.print()
    if facts.alerts:
        console.print(*report(facts.alerts), "", sep="\n")
    metrics = Dashboard(
        row=facts.latest,
        title=f"metrics at {int(facts.latest[STEP]):,} steps",
        total_steps=facts.total_steps,
        step=int(facts.latest[STEP]),
        elapsed=facts.latest.get("time/elapsed", 0.0),
        threshold=facts.threshold,
        history=[value for _, value in facts.curve(RETURN)],
        written_at=facts.written_at,
    )
    console.print(metrics, width=panel_width(console))


def _about(facts: RunFacts) -> list[tuple[str, Cell]]:
    info = facts.info
    steps = f"{facts.env_steps:,} of {facts.total_steps:,}"
    if facts.seconds is not None:
        steps += f" in {duration(facts.seconds)}"
    if facts.seconds:
        steps += f", {facts.env_steps / facts.seconds:,.0f} steps/s"
    reason = facts.summary.get("stop_reason")
    versions = ", ".join(f"{name} {version}" for name, version in info.versions.items())
    crash = f"{facts.crash}  (all of it: {info.path / 'log.txt'})" if facts.crash else ""
    return [
        ("name", info.name or ""),
        ("tags", ", ".join(info.tags)),
        ("env", info.env),
        ("changed", ", ".join(f"{key}={setting(value)}" for key, value in facts.changes.items())),
        ("algo", f"{facts.algo}, seed {info.seed}"),
        ("created", f"{utc(info.created)}, {ago(info.created)}"),
        ("started from", info.parent or ""),
        ("steps", steps),
        ("stopped", stop_text(reason) if reason else ""),
        ("resumes at", facts.resumes_at or ""),
        ("crash", Text(crash, style="red")),
        ("score", _verdict(facts)),
        *task_lines(facts.summary).items(),
        ("evaluated on", facts.evaluated_on or ""),
        ("agent", agent_text(facts.summary)),
        ("target", goal_text(facts.goal, facts.on_target)),
        *(("stage", stage_text(stage)) for stage in facts.stages),
        ("command", shlex.join(info.command)),
        ("versions", versions),
        ("process", f"{info.pid} on {info.host}" if facts.live else ""),
        ("trained on", info.on or ""),
        ("folder", str(info.path)),
        ("problem", Text("; ".join(facts.problems), style="bold red")),
    ]


def _verdict(facts: RunFacts) -> Text:
    if facts.score is None:
        return Text("none yet", style="dim")
    text, summary = Text().append(score(facts.score), style="bold"), facts.info.summary
    if summary.get("interval") and summary.get("eval_mean") == facts.score:
        low, high = summary["interval"]
        text.append(f"  95% interval {low:,.2f} to {high:,.2f}, {episodes_text(summary)}")
    else:
        text.append("  the best evaluation")
    if facts.summary.get("tasks"):  # each has a threshold of its own
        text.append(f"  {RELATIVE}", style="dim").append("  solved: ").append_text(yes_no(facts.solved))
    elif facts.threshold is not None:
        text.append(f"  solved at {facts.threshold:g}: ").append_text(yes_no(facts.solved))
    return text


def _print_checkpoints(console: Console, facts: RunFacts) -> None:
    info = facts.info
    rows: list[list[Cell]] = []
    for item in facts.checkpoints:
        verb = "resume" if item.name == "last" and info.status in UNFINISHED else "eval"
        use: Cell = f"gymnast {verb} {info.token}/{item.name}{runs_dir_option(info.path.parent)}"
        if item.problem:
            use = Text(f"broken: {item.problem}", style="bold red")
        returns = (item.metrics.get(name) for name in ("rollout/ep_rew_mean", "eval/mean_reward"))
        rows.append([item.name, number(item.step), *(score(value) for value in returns), use])
    columns = [Column("checkpoint", style="bold"), *right("step", "training return", "evaluation")]
    columns.append(Column("use", style="dim", wraps=24))
    console.print(table(console, columns, rows) if rows else "no checkpoints yet")
