"""`gymnast envs list|show|import-rom` for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast.core.text import number, setting, span
from gymnast.terminal.format import Cell, Column, facts_grid, heading, output, right, section, table
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
    for command in dict.fromkeys(filter(None, (env["install"] for env in envs))):
        console.print(f"\n{_needed(command)}", style="yellow", markup=False)
    if "others" not in result.data:
        console.print("\nany other id registered with Gymnasium works too: `gymnast envs list --all`", style="dim")
        return
    section(console, "registered with Gymnasium, without a preset", *map(Text, result.data["others"]))


def _needed(command: str) -> str:
    what = "your own ROM" if command.startswith("gymnast ") else "a package that is not installed"
    return f"! needs {what}: {command}"


def _list_row(env: dict[str, Any]) -> list[Cell]:
    name = Text(env["id"]) if env["installed"] else Text(f"{env['id']} !", style="yellow")
    solved, optimum = ("" if value is None else f"{value:g}" for value in (env["threshold"], env["optimum"]))
    solved += f", {env['evidence']}" if env["evidence"] else ""
    return [name, ", ".join(env["variants"]), solved, optimum, env["description"]]


def print_env(result: Facts) -> None:
    console, env = output(), result.data
    known = "family" in env  # from its preset
    about = env["family"] if known else "registered with Gymnasium, no preset"
    console.print(Text().append(env["id"], style="bold").append(f"  {about}", style="dim"))
    if known:
        console.print(Text(env["description"]))
        if command := env["install"]:
            console.print(_needed(command), style="yellow", markup=False)
    console.print()
    console.print(facts_grid(_preset_facts(env) if known else _registered_facts(env)))
    if known:
        _print_parts(console, env)
    rows = [[one["name"], _setting(one["value"]), _differing(one["others"]), one["meaning"]] for one in env["task"]]
    columns = [
        Column("env.kwargs", style="bold"),
        Column(env.get("shown", "")),
        Column("other variants", wraps=16, most=60, drop=1),
    ]
    _print_table(console, "task", [*columns, Column("", style="dim", wraps=24, most=60)], rows)


def _setting(value: Any) -> str:
    """A setting of a task; of a table what it names."""
    if isinstance(value, dict) and (tables := [part for part in value.values() if isinstance(part, dict)]):
        return ", ".join(name for part in tables for name in part)
    return setting(value)


def _differing(others: dict[str, Any]) -> str:
    values = {name: _setting(value) for name, value in others.items()}
    names = {value: ", ".join(name for name in values if values[name] == value) for value in values.values()}
    return "; ".join(f"{value} ({who})" for value, who in names.items())


def _print_parts(console: Console, env: dict[str, Any]) -> None:
    last = Column("", style="dim", wraps=24)
    numbered = [[str(index), name] for index, name in enumerate(env["actions"])]
    _print_table(console, "actions", [*right(""), Column("")], numbered)
    parts = [
        [str(index), part["name"], _range(part), part.get("unit") or "", part.get("meaning") or ""]
        for index, part in enumerate(env["observations"])
    ]
    names = [*right(""), Column(""), Column("range"), Column("unit"), Column("meaning", wraps=24)]
    _print_table(console, "observation", names, parts)
    shaping = [[*part.values()] for part in env["shaping"]]
    _print_table(console, "shaping", [Column("", style="bold"), Column(""), last], shaping)
    scores = [[one["algo"], f"{one['score']:g}", number(one["steps"]), one["source"]] for one in env["references"]]
    columns = [Column("algo"), *right("score", "steps"), Column("source", wraps=24)]
    _print_table(console, "published scores", columns, scores)
    rows = []
    for one in env["variants"]:
        about = one["about"] or f"gymnast train {env['id']}:{one['name']}"
        rows.append([one["name"], one["algo"], number(one["total_timesteps"]), str(one["n_envs"]), about])
    columns = [Column("", style="bold"), Column("algo"), *right("steps", "envs"), last]
    _print_table(console, "variants", columns, rows)


def _range(part: dict[str, Any]) -> str:
    return span(part["low"], part["high"]) if "low" in part else ""


def _preset_facts(env: dict[str, Any]) -> list[tuple[str, Cell]]:
    solved, reward = env["solved"], env["reward"]
    low, high = reward["low"], reward["high"]
    limits = "" if low is None and high is None else f"{span(low, high)} a step: "
    mean = "mean of {threshold:g} over {episodes} episodes ({source})".format(**solved) if solved else ""
    mean += f", {solved['evidence']} here" if solved and solved["evidence"] else ""
    return [
        ("made with", _kwargs(env)),
        ("time limit", _time_limit(env)),
        ("reward", f"{limits}{reward['meaning']}"),
        ("solved", mean),
        ("", (solved["note"] or "") if solved else ""),
        ("optimum", _optimum(env)),
    ]


def _registered_facts(env: dict[str, Any]) -> list[tuple[str, Cell]]:
    threshold, unknown = env["threshold"], "no threshold registered: set stop.threshold"
    return [
        ("observations", env["observation_space"] or ""),
        ("actions", env["action_space"] or ""),
        ("time limit", _time_limit(env)),
        ("solved", unknown if threshold is None else f"mean of {threshold:g} (registered)"),
        ("optimum", _optimum(env)),
        ("made with", _kwargs(env)),
        ("entry point", env["entry_point"]),
        ("problem", Text(env["problem"] or "", style="yellow")),
        ("train", f"gymnast train {env['id']}  (variants: {', '.join(env['variants'])})"),
    ]


ROMS = (Column("file", wraps=30), Column("env", style="bold"), Column("status"))


def print_import(result: Facts) -> None:
    console, data = output(), result.data
    files, new = data["files"], [row for row in data["files"] if row["status"] == "imported"]
    console.print(table(console, ROMS, [[row["file"], row["env"] or "", row["status"]] for row in files]))
    known = sum(row["env"] is not None for row in files)
    console.print(f"\n{len(files)} files, {known} known ROMs, {len(new)} imported into {data['into']}", markup=False)
    if new:
        console.print(f"next: gymnast train {new[0]['env']}", markup=False)
    elif not known:
        console.print(
            "A ROM is known by its hash: another edition of a game is not known. Of archives, .zip files are opened.",
            style="dim",
        )


def _kwargs(env: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in env["kwargs"].items())


def _time_limit(env: dict[str, Any]) -> str:
    return f"{env['max_episode_steps']:,} {env['limit_unit']}" if env["max_episode_steps"] else "none"


def _optimum(env: dict[str, Any]) -> str:
    return "" if env["optimum"] is None else f"{env['optimum']:g} ({env['optimum_source']})"


def _print_table(console: Console, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    shown = table(console, columns, rows)
    shown.show_header = any(column.title for column in columns)
    section(console, title, *([shown] if rows else []))
