"""`gymnast runs list|show|compare` and the result of `gymnast eval`. Needs no torch: headers and JSON files only."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast import checkpoint
from gymnast.apps.chart import chart, legend
from gymnast.apps.terminal import (
    Cell,
    Column,
    ago,
    facts_grid,
    heading,
    number,
    output,
    panel_width,
    score,
    setting,
    status_text,
    table,
    yes_no,
)
from gymnast.apps.training import runs_dir_option
from gymnast.config.facts import EnvFacts
from gymnast.config.files import parse_yaml
from gymnast.config.load import load_facts
from gymnast.errors import UserError
from gymnast.metrics.catalogue import duration
from gymnast.metrics.sinks.jsonl import STEP, read_metrics
from gymnast.metrics.sinks.panels import STOPS, render_row, sparkline, summary_panel
from gymnast.run import Run, RunInfo, compare, list_runs, resolve

Rows = Sequence[Mapping[str, float]]

UNFINISHED = ("interrupted", "killed", "crashed")

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
    rows = [_brief(info) for info in runs]
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


def _brief(info: RunInfo) -> dict[str, Any]:
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
        **_reached(info, None),
    }


def _reached(info: RunInfo, rows: Rows | None) -> dict[str, Any]:
    """How far a run came: as its summary says, or by its rows where it has none (yet), or an old one."""
    keys = ("score", "solved", "env_steps", "seconds")
    if info.summary and info.status != "running":
        return {key: info.summary.get(key) for key in keys}
    rows = read_metrics(info.path / "metrics.jsonl") if rows is None else rows
    latest, _ = _latest(rows)
    solved = latest.get("solved")
    return {
        "score": latest.get("eval/best_mean_reward"),
        "solved": None if solved is None else bool(solved),
        "env_steps": int(latest.get(STEP, 0)),
        "seconds": latest.get("time/elapsed"),
    }


def _latest(rows: Rows) -> tuple[dict[str, float], dict[str, int]]:
    """The last value of every metric, and the step it is from: not every row has all of them."""
    latest: dict[str, float] = {}
    written_at: dict[str, int] = {}
    for row in rows:
        latest.update(row)
        written_at.update(dict.fromkeys(row, int(row.get(STEP, 0))))
    return latest, written_at


def _list_row(row: Mapping[str, Any]) -> list[Cell]:
    seconds = row["seconds"]
    return [
        row["token"],
        row["env"],
        _algo(row["algo"], row["variant"]),
        str(row["seed"]),
        status_text(row["status"]),
        score(row["score"]),
        yes_no(row["solved"]),
        number(row["env_steps"]),
        "" if seconds is None else duration(seconds),
        ago(row["created"]),
    ]


def _algo(algo: str, variant: str | None) -> str:
    return algo if variant in (None, algo) else f"{algo} ({variant})"


def show_run(ref: str, runs_dir: Path, as_json: bool = False) -> dict[str, Any]:
    """`gymnast runs show`."""
    run = resolve(ref, runs_dir)
    info, rows, checkpoints = run.read(), read_metrics(run.metrics_path), _checkpoints(run)
    latest, written_at = _latest(rows)
    settings, problem = _settings(run)
    facts = load_facts(info.env)
    threshold = _threshold(latest, settings, facts)
    data: dict[str, Any] = {
        **_brief(info),
        **{key: value for key, value in asdict(info).items() if key not in ("path", "id")},
        **_reached(info, rows),
        "threshold": threshold,
        "checkpoints": [
            {"name": item.name, "step": item.step, "problem": item.problem, "metrics": item.metrics}
            for item in checkpoints
        ],
        "metrics": latest,
        "rows": len(rows),
        "crash": _last_words(run) if info.status == "crashed" else None,
        "problem": problem,
    }
    if as_json:
        return data
    console = output()
    total = settings.get("train", {}).get("total_timesteps") or data["env_steps"] or 1
    console.print(Text().append(info.id, style="bold").append("  ").append_text(status_text(info.status)))
    console.print(facts_grid(_about(info, data, total, problem)))
    _print_checkpoints(console, checkpoints, info)
    if not rows:
        console.print("\nno metrics yet")
        return data
    _print_curve(console, rows, threshold)
    console.print()
    picture = render_row(
        latest,
        title=f"metrics at {int(latest[STEP]):,} steps",
        total_steps=total,
        facts={"threshold": threshold},
        history=[row["rollout/ep_rew_mean"] for row in rows if "rollout/ep_rew_mean" in row],
        written_at=written_at,
    )
    console.print(picture, width=panel_width(console))
    return data


def _settings(run: Run) -> tuple[dict[str, Any], str | None]:
    """The run's config as it lies there; a broken one does not keep the rest from being shown."""
    try:
        return parse_yaml(run.config_path.read_text(encoding="utf-8"), str(run.config_path)).data, None
    except (OSError, UnicodeDecodeError) as error:
        return {}, f"{run.config_path} cannot be read: {error}"
    except UserError as error:
        return {}, str(error)


def _last_words(run: Run) -> str | None:
    """The last line of the log, which is the last line of a crashed env's traceback."""
    try:
        lines = run.log_path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    return next((line.strip() for line in reversed(lines) if line.strip()), None)


def _threshold(latest: Mapping[str, float], settings: Mapping[str, Any], facts: EnvFacts | None) -> float | None:
    if "verdict/threshold" in latest:
        return latest["verdict/threshold"]
    own = settings.get("stop", {}).get("threshold")
    if own is None and facts is not None and facts.solved is not None:
        return facts.solved.threshold
    return None if own is None else float(own)


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
        ("algo", f"{_algo(info.algo, info.variant)}, seed {info.seed}"),
        ("created", f"{info.created[:19].replace('T', ' ')} UTC, {ago(info.created)}"),
        ("started from", info.parent or ""),
        ("steps", steps),
        ("stopped", STOPS.get(str(reason), str(reason)) if reason else ""),
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


def _checkpoints(run: Run) -> list[checkpoint.CheckpointInfo]:
    by_path = {item.path.name: item for item in checkpoint.list_checkpoints(run.checkpoints_dir)}
    return [by_path[path.name] for path in run.checkpoints() if path.name in by_path]


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


def _print_curve(console: Console, rows: Rows, threshold: float | None) -> None:
    series = [
        [(row[STEP], row[name]) for row in rows if name in row and STEP in row]
        for name in ("rollout/ep_rew_mean", "eval/mean_reward")
    ]
    picture = chart(series[0], series[1], threshold, panel_width(console))
    if not picture:
        return
    level = None if threshold is None else f"solved at {threshold:g}"
    console.print()
    console.print(Text().append_text(heading("return")).append_text(legend("training", "evaluation", level)))
    for line in picture:
        console.print(line)


def compare_runs(refs: Sequence[str], runs_dir: Path, as_json: bool = False) -> dict[str, Any]:
    """`gymnast runs compare`."""
    by_id = {run.id: run for run in (resolve(ref, runs_dir) for ref in refs)}
    if len(by_id) == 1 and len(refs) > 1:
        raise UserError(f"{' and '.join(refs)} are all the same run, {next(iter(by_id))}. Name different ones.")
    runs = list(by_id.values())
    data = compare(runs)
    if as_json:
        return data
    console = output()
    infos = [run.read() for run in runs]
    columns = [Column("", style="dim"), *(Column(info.token) for info in infos)]
    briefs = [_brief(info) for info in infos]
    console.print(table(console, columns, _compared(briefs, runs)))
    console.print()
    if data["config"]:
        columns[0] = Column("settings that differ", style="dim")
        rows = [[key, *(setting(value) for value in values)] for key, values in data["config"].items()]
        console.print(table(console, columns, rows))
    else:
        console.print("no setting differs" if len(runs) > 1 else "name a second run to see which settings differ")
    return data


def _compared(briefs: Sequence[Mapping[str, Any]], runs: Sequence[Run]) -> list[list[Cell]]:
    def line(name: str, cells: Sequence[Cell]) -> list[Cell]:
        return [name, *cells]

    intervals = [run.read().summary.get("interval") for run in runs]
    curves = [
        [row["rollout/ep_rew_mean"] for row in read_metrics(run.metrics_path) if "rollout/ep_rew_mean" in row]
        for run in runs
    ]
    return [
        line("env", [brief["env"] for brief in briefs]),
        line("algo", [_algo(brief["algo"], brief["variant"]) for brief in briefs]),
        line("seed", [str(brief["seed"]) for brief in briefs]),
        line("status", [status_text(brief["status"]) for brief in briefs]),
        line("score", [Text(score(brief["score"]), style="bold") for brief in briefs]),
        line("95% interval", [f"{ends[0]:,.2f} to {ends[1]:,.2f}" if ends else "" for ends in intervals]),
        line("solved", [yes_no(brief["solved"]) for brief in briefs]),
        line("steps", [number(brief["env_steps"]) for brief in briefs]),
        line("time", ["" if brief["seconds"] is None else duration(brief["seconds"]) for brief in briefs]),
        line("created", [ago(brief["created"]) for brief in briefs]),
        line("training return", [Text(sparkline(curve, 24), style="cyan") for curve in curves]),
        line("  from, to", [f"{curve[0]:,.2f}, {curve[-1]:,.2f}" if curve else "" for curve in curves]),
    ]


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
