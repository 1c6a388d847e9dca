"""`gymnast envs list|show` for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast.core.text import number, span
from gymnast.terminal.format import Cell, Column, facts_grid, heading, output, table
from gymnast.verbs.envs.show import PresetEnv, needs
from gymnast.verbs.result import Facts

LIST = (
    Column("env", style="bold"),
    Column("variants", drop=1),
    Column("solved at", right=True),
    Column("optimum", right=True, drop=2),
    Column("description", style="dim", wraps=40, drop=3),
)


def print_envs(result: Facts) -> None:
    console, envs = output(), result.data["envs"]
    rows: list[list[Cell]] = []
    for family in dict.fromkeys(env["family"] for env in envs):
        rows += [[""] * len(LIST)] if rows else []
        rows.append([heading(family), *[""] * (len(LIST) - 1)])
        rows += [_list_row(env) for env in envs if env["family"] == family]
    console.print(table(console, LIST, rows))
    for command in dict.fromkeys(filter(None, (needs(env["extra"]) for env in envs))):
        console.print(f"\n! needs a package that is not installed: {command}", style="yellow", markup=False)
    if "others" not in result.data:
        console.print("\nany other id registered with Gymnasium works too: `gymnast envs list --all`", style="dim")
        return
    console.print()
    console.print(heading("registered with Gymnasium, without a preset"))
    for name in result.data["others"]:
        console.print(Text(name))


def _list_row(env: dict[str, Any]) -> list[Cell]:
    name = Text(env["id"]) if env["installed"] else Text(f"{env['id']} !", style="yellow")
    numbers = ("" if value is None else f"{value:g}" for value in (env["threshold"], env["optimum"]))
    return [name, ", ".join(env["variants"]), *numbers, env["description"]]


def print_env(result: PresetEnv | Facts) -> None:
    if isinstance(result, PresetEnv):
        _print_preset(output(), result)
    else:
        _print_registered(output(), result.data)


def _print_preset(console: Console, env: PresetEnv) -> None:
    facts = env.facts
    console.print(Text().append(env.id, style="bold").append(f"  {facts.family}", style="dim"))
    console.print(Text(facts.description))
    if command := needs(facts.extra):
        console.print(f"! needs a package that is not installed: {command}", style="yellow", markup=False)
    console.print()
    console.print(facts_grid(_facts(env)))
    numbered = [[str(index), name] for index, name in enumerate(facts.actions)]
    _section(console, "actions", [Column("", right=True), Column("")], numbered)
    names = [Column("", right=True), Column(""), Column("range"), Column("unit"), Column("meaning", wraps=24)]
    parts = [
        [str(index), part.name, span(part.low, part.high), part.unit or "", part.meaning or ""]
        for index, part in enumerate(facts.observations)
    ]
    _section(console, "observation", names, parts)
    columns = [Column("", style="bold"), Column(""), Column("", style="dim", wraps=24)]
    _section(console, "shaping", columns, [[*part.values()] for part in env.shaping])
    columns = [Column("algo"), Column("score", right=True), Column("steps", right=True), Column("source", wraps=24)]
    scores = [[item.algo, f"{item.score:g}", number(item.steps), item.source] for item in facts.references]
    _section(console, "published scores", columns, scores)
    columns = [Column("", style="bold"), Column("algo"), Column("steps", right=True), Column("envs", right=True)]
    rows = [
        [
            item["name"],
            item["algo"],
            number(item["total_timesteps"]),
            str(item["n_envs"]),
            item["about"] or f"gymnast train {env.id}:{item['name']}",
        ]
        for item in env.variants
    ]
    _section(console, "variants", [*columns, Column("", style="dim", wraps=24)], rows)


def _facts(env: PresetEnv) -> list[tuple[str, Cell]]:
    facts = env.facts
    solved, reward = facts.solved, facts.reward
    limits = "" if reward.low is None and reward.high is None else f"{span(reward.low, reward.high)} a step: "
    return [
        ("made with", ", ".join(f"{key}={value}" for key, value in facts.kwargs.items())),
        ("time limit", f"{facts.max_episode_steps:,} steps" if facts.max_episode_steps else "none"),
        ("reward", f"{limits}{reward.meaning}"),
        ("solved", f"mean of {solved.threshold:g} over {solved.episodes} episodes ({solved.source})" if solved else ""),
        ("", (solved.note or "") if solved else ""),
        ("optimum", "" if env.optimum is None else f"{env.optimum:g} ({env.optimum_source})"),
    ]


def _section(console: Console, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    if not rows:
        return
    console.print()
    console.print(heading(title))
    shown = table(console, columns, rows)
    shown.show_header = any(column.title for column in columns)
    console.print(shown)


def _print_registered(console: Console, env: dict[str, Any]) -> None:
    limit, threshold, optimum = env["max_episode_steps"], env["threshold"], env["optimum"]
    unknown = "no threshold registered: set stop.threshold"
    facts: list[tuple[str, Cell]] = [
        ("observations", env["observation_space"] or ""),
        ("actions", env["action_space"] or ""),
        ("time limit", f"{limit:,} steps" if limit else "none"),
        ("solved", unknown if threshold is None else f"mean of {threshold:g} (registered)"),
        ("optimum", "" if optimum is None else f"{optimum:g} ({env['optimum_source']})"),
        ("made with", ", ".join(f"{key}={value}" for key, value in env["kwargs"].items())),
        ("entry point", env["entry_point"]),
        ("problem", Text(env["problem"] or "", style="yellow")),
        ("train", f"gymnast train {env['id']}  (variants: {', '.join(env['variants'])})"),
    ]
    console.print(Text().append(env["id"], style="bold").append("  registered with Gymnasium, no preset", style="dim"))
    console.print()
    console.print(facts_grid(facts))
