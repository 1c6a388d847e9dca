"""`gymnast runs list|show` and the result of `gymnast eval`. Needs no torch: headers and JSON files only."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast.alerts.text import report
from gymnast.core.text import ago, duration, number, score
from gymnast.metrics.rows import STEP
from gymnast.report.charts.text import draw
from gymnast.report.page import return_chart
from gymnast.report.run_facts import RETURN, UNFINISHED, RunFacts
from gymnast.report.verdict import stop_text
from gymnast.runs import checkpoint
from gymnast.runs.references import Run, RunInfo, list_runs, resolve, runs_dir_option
from gymnast.sinks.console.panels import render_row, summary_panel
from gymnast.terminal.format import (
    Cell,
    Column,
    facts_grid,
    output,
    panel_width,
    status_text,
    table,
    yes_no,
)

LIST = (
    Column("run", style="bold"),
    Column("env"),
    Column("algo", drop=2),
    Column("seed", right=True, drop=4),
    Column("status"),
    Column("score", right=True),
    Column("solved", drop=1),
    Column("steps", right=True, drop=3),
    Column("time", right=True, drop=6),
    Column("created", drop=5),
)


def list_all_runs(runs_dir: Path, as_json: bool = False) -> dict[str, Any]:
    """`gymnast runs list`."""
    runs = list_runs(runs_dir)
    rows = [brief(RunFacts(Run(info.path), info)) for info in runs]
    complain = output(stderr=True)
    for warning in runs.warnings:
        complain.print(Text(f"gymnast: {warning}"), soft_wrap=True)
    if not as_json:
        console = output()
        if rows:
            console.print(table(console, LIST, [_list_row(row) for row in rows]))
        else:
            console.print(f"no runs in {runs_dir} yet: start one with `gymnast train CartPole-v1`", soft_wrap=True)
    return {"runs": rows, "warnings": runs.warnings}


def brief(facts: RunFacts) -> dict[str, Any]:
    """What a run is and how far it came."""
    info = facts.info
    return {
        "id": info.id,
        "token": info.token,
        "env": info.env,
        "algo": info.algo,
        "variant": info.variant,
        "seed": info.seed,
        "status": info.status,
        "created": info.created,
        "parent": info.parent,
        "path": str(info.path),
        "score": facts.score,
        "solved": facts.solved,
        "env_steps": facts.env_steps,
        "seconds": facts.seconds,
        "interval": facts.summary.get("interval"),
    }


def _list_row(row: Mapping[str, Any]) -> list[Cell]:
    seconds = row["seconds"]
    return [
        row["token"],
        row["env"],
        algo_text(row["algo"], row["variant"]),
        str(row["seed"]),
        status_text(row["status"]),
        score(row["score"]),
        yes_no(row["solved"]),
        number(row["env_steps"]),
        "" if seconds is None else duration(seconds),
        ago(row["created"]),
    ]


def algo_text(algo: str, variant: str | None) -> str:
    return algo if variant in (None, algo) else f"{algo} ({variant})"


def show_run(ref: str, runs_dir: Path, as_json: bool = False) -> dict[str, Any]:
    """`gymnast runs show`."""
    facts = RunFacts(resolve(ref, runs_dir))
    info, rows, checkpoints = facts.info, facts.rows, facts.checkpoints
    problem = "; ".join(facts.problems) or None
    data: dict[str, Any] = {
        **{key: value for key, value in asdict(info).items() if key not in ("path", "id")},
        **brief(facts),
        "threshold": facts.threshold,
        "checkpoints": [
            {"name": item.name, "step": item.step, "problem": item.problem, "metrics": item.metrics}
            for item in checkpoints
        ],
        "alerts": [alert.to_json() for alert in facts.alerts],
        "metrics": facts.latest,
        "rows": len(rows),
        "crash": facts.crash,
        "problem": problem,
    }
    if as_json:
        return data
    console = output()
    console.print(Text().append(info.id, style="bold").append("  ").append_text(status_text(info.status)))
    console.print(facts_grid(_about(info, data, facts.total_steps, problem)))
    _print_checkpoints(console, checkpoints, info)
    if not rows:
        console.print("\nno metrics yet")
        return data
    _print_curve(console, facts)
    console.print()
    if facts.alerts:
        console.print(*report(facts.alerts), "", sep="\n")
    picture = render_row(
        facts.latest,
        title=f"metrics at {int(facts.latest[STEP]):,} steps",
        total_steps=facts.total_steps,
        facts={"threshold": facts.threshold},
        history=[value for _, value in facts.curve(RETURN)],
        written_at=facts.written_at,
    )
    console.print(picture, width=panel_width(console))
    return data


def _about(info: RunInfo, data: Mapping[str, Any], total: int, problem: str | None) -> list[tuple[str, Cell]]:
    summary = info.summary
    steps = f"{data['env_steps'] or 0:,} of {total:,}"
    if data["seconds"] is not None:
        steps += f" in {duration(data['seconds'])}"
    if summary.get("fps"):
        steps += f", {summary['fps']:,.0f} steps/s"
    reason = summary.get("stop_reason") if info.status != "running" else None
    versions = ", ".join(f"{name} {version}" for name, version in info.versions.items())
    return [
        ("env", info.env),
        ("algo", f"{algo_text(info.algo, info.variant)}, seed {info.seed}"),
        ("created", f"{info.created[:19].replace('T', ' ')} UTC, {ago(info.created)}"),
        ("started from", info.parent or ""),
        ("steps", steps),
        ("stopped", stop_text(reason) if reason else ""),
        ("crash", Text(f"{data['crash']}  (all of it: {info.path / 'log.txt'})", style="red") if data["crash"] else ""),
        ("score", _verdict(data, summary)),
        ("command", shlex.join(info.command)),
        ("versions", versions),
        ("process", f"{info.pid} on {info.host}" if info.status == "running" else ""),
        ("folder", str(info.path)),
        ("problem", Text(problem, style="bold red") if problem else ""),
    ]


def _verdict(data: Mapping[str, Any], summary: Mapping[str, Any]) -> Text:
    if data["score"] is None:
        return Text("none yet", style="dim")
    text = Text().append(score(data["score"]), style="bold")
    if summary.get("interval") and summary.get("eval_mean") == data["score"]:
        low, high = summary["interval"]
        text.append(f"  95% interval {low:,.2f} to {high:,.2f}, {summary['episodes']} fresh episodes")
    else:
        text.append("  the best evaluation")
    if data["threshold"] is not None:
        text.append(f"  solved at {data['threshold']:g}: ").append_text(yes_no(data["solved"]))
    return text


def _print_checkpoints(console: Console, checkpoints: Sequence[checkpoint.CheckpointInfo], info: RunInfo) -> None:
    console.print()
    if not checkpoints:
        console.print("no checkpoints yet")
        return
    columns = [
        Column("checkpoint", style="bold"),
        Column("step", right=True),
        Column("training return", right=True),
        Column("evaluation", right=True),
        Column("use", style="dim", wraps=24),
    ]
    rows: list[list[Cell]] = []
    for item in checkpoints:
        verb = "resume" if item.name == "last" and info.status in UNFINISHED else "eval"
        use: Cell = f"gymnast {verb} {info.token}/{item.name}{runs_dir_option(info.path.parent)}"
        if item.problem:
            use = Text(f"broken: {item.problem}", style="bold red")
        returns = (item.metrics.get(name) for name in ("rollout/ep_rew_mean", "eval/mean_reward"))
        rows.append([item.name, number(item.step), *(score(value) for value in returns), use])
    console.print(table(console, columns, rows))


def _print_curve(console: Console, facts: RunFacts) -> None:
    for line in ["", *picture] if (picture := draw(return_chart(facts), panel_width(console))) else ():
        console.print(line)


def print_evaluation(result: Mapping[str, Any], runs_dir: Path) -> None:
    """`gymnast eval`."""
    console = output()
    low, high = result["interval"]
    show = f"gymnast runs show {result['run'].split('-')[0]}{runs_dir_option(runs_dir)}"
    facts = {
        **{key: result[key] for key in ("env", "solved", "episodes", "threshold", "exact_value", "optimum", "regret")},
        "run": f"{result['run']}/{result['checkpoint']}",
        "mean": result["eval_mean"],
        "low": low,
        "high": high,
        "judge": result["policy"],
        "next": [(show, "all about this run")],
    }
    console.print(summary_panel(facts), width=panel_width(console))
