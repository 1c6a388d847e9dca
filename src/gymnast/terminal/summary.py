"""How a run ended or an agent scored, in a panel: `gymnast train|resume|eval` for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from gymnast.alerts.text import report
from gymnast.core.text import duration
from gymnast.report.verdict import (
    RELATIVE,
    agent_text,
    episodes_text,
    goal_text,
    stop_text,
    task_lines,
    test_lines,
)
from gymnast.terminal.format import Cell, facts_grid, output, panel_width
from gymnast.verbs.result import Launched, Scored


def print_summary(result: Scored) -> None:
    console = output()
    if isinstance(result, Launched):
        console.print(f"{result.run} is trained on {result.data['on']}")
        for command, what in result.next:
            console.print(Text(command, style="bold cyan", overflow="fold"), Text(f"  {what}", style="dim"))
        return
    console.print(summary_panel(result), width=panel_width(console))


def is_undecided(result: Scored) -> bool:
    """Whether a saved agent scored above the threshold, in too few episodes to show that it is solved."""
    data = result.data
    if data.get("stop_reason") or data["solved"] or result.threshold is None or data.get("exact_value") is not None:
        return False
    return data["eval_mean"] is not None and data["eval_mean"] >= result.threshold


def scored_env(result: Scored) -> str:
    """The env of the score; of several tasks the one that was chosen, or all of them."""
    data, config = result.data, result.config
    if data.get("stop_reason") or "tasks" not in data or len(data["tasks"]) > 1:
        return config.env.id
    (name,) = data["tasks"]
    return f"{config.task_envs[config.task_number(name) or 0].id} · task {name}"


def summary_panel(result: Scored) -> RenderableType:
    config, reason = result.config, result.data.get("stop_reason")  # None: of a saved agent
    if result.data["solved"]:
        headline, colour = "SOLVED", "green"
    elif reason == "interrupted":
        headline, colour = "INTERRUPTED", "yellow"
    elif result.threshold is None:
        headline, colour = "DONE", "cyan"
    elif is_undecided(result):
        headline, colour = "UNDECIDED", "yellow"
    else:
        headline, colour = "NOT SOLVED" if result.data["eval_mean"] is not None else "NOT JUDGED", "yellow"
    title = Text().append(headline, style=f"bold {colour}").append(f"  {scored_env(result)}", style="bold default")
    if reason:
        title.append(f" · {config.algo.name}", style="bold default")
        title.append(f" · seed {config.train.seed}", style="default")
    parts: list[RenderableType] = [title, Text(), facts_grid(_facts(result))]
    if result.alerts:
        parts += [Text(), *report(result.alerts)]
    if result.next:
        parts += [Text(), Text("next", style="yellow")]
        for command, what in result.next:  # a line of its own: ready to be copied
            parts += [Text(command, style="bold cyan", overflow="fold"), Text(f"  {what}", style="dim")]
    return Panel(Group(*parts), border_style=colour, box=box.ROUNDED, padding=(0, 1))


def stage_text(stage: Mapping[str, Any]) -> str:
    """plain: 300,000 steps, 212.40 at its end, 180.10 now: 32.30 forgotten"""
    text = f"{stage['stage']}: {stage['steps']:,} steps"
    if stage["score_at_end"] is not None:
        text += f", {stage['score_at_end']:,.2f} at its end"
    if stage["score"] is not None:
        text += f", {stage['score']:,.2f} now"
    return text if stage["forgetting"] is None else f"{text}: {stage['forgetting']:,.2f} forgotten"


def _facts(result: Scored) -> list[tuple[str, Cell]]:
    data = result.data
    score, exact, training, episodes = Text(), Text(), Text(), ""
    if data["eval_mean"] is not None:
        score.append(f"{data['eval_mean']:,.2f}", style="bold")
        score.append("  95% interval {:,.2f} to {:,.2f}".format(*data["interval"]) if data["interval"] else "")
        policy = data.get("policy", result.config.stop.judge)
        episodes = f"{episodes_text(data)}, {policy}"
        stage = data.get("stage") or next((one["stage"] for one in reversed(data.get("stages", []))), None)
        episodes += f", in stage {stage}" if stage else ""
        episodes += f", on {data['evaluated_on']}" if data.get("evaluated_on") else ""
    if data["exact_value"] is not None:
        exact.append(f"{data['exact_value']:,.4f}", style="bold")
        exact.append(f"  decides; optimum {data['optimum']:,.4f}, regret {data['regret']:,.4f}")
    if reason := data.get("stop_reason"):
        training.append(f"{data['env_steps']:,} steps in {duration(data['seconds'])}")
        if before := data.get("resumed_at"):
            training.append(f", {data['env_steps'] - before:,} of them since it was resumed at {before:,}")
        training.append(f"  {data['fps']:,.0f} steps/s", style="dim")
    used = f"{data['core_seconds']:,.0f} core-seconds" if data.get("core_seconds") else ""
    used += f", which cost {data['cost']:,.2f}" if data.get("cost") else ""
    why_undecided = f"; {data['episodes']} episodes are too few to show it" if is_undecided(result) else ""
    tasks = task_lines(data)
    tests = test_lines(data).items()
    if tasks and data["eval_mean"] is not None:
        score.append(f"  {RELATIVE}", style="dim")
    return [
        *tasks.items(),
        ("score", score),
        ("measured on", episodes),
        *tests,
        ("agent", agent_text(data)),
        ("exact", exact),
        ("solved at", "" if result.threshold is None or tasks else f"{result.threshold:g}{why_undecided}"),
        ("target", goal_text(data.get("target"), data.get("on_target"))),
        ("training", training),
        ("used", used),
        *(("stage", stage_text(stage)) for stage in data.get("stages", [])),
        ("not reached", ", ".join(list(result.config.stages)[len(data["stages"]) :]) if data.get("stages") else ""),
        ("stopped", stop_text(reason) if reason else ""),
        ("run", Text("/".join(filter(None, (result.run, data.get("checkpoint")))), style="bold")),
    ]
