"""`gymnast envs check` for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast.core.text import number, span
from gymnast.terminal.format import Cell, Column, facts_grid, look_at, output, right, section, table
from gymnast.verbs.envs.check import STATISTICS
from gymnast.verbs.envs.health import Checked

MANY = (
    Column("env", style="bold"),
    Column("variants", style="dim", wraps=20, drop=3),
    Column("engine", drop=2),
    Column("episodes", right=True, drop=5),
    Column("seeds", drop=1),
    Column("picture", drop=4),
    Column("seconds", right=True, drop=6),
    Column("result"),
)


def print_check(result: Checked) -> None:
    console, data = output(), result.data
    (_print_many if "envs" in data else _print_one)(console, data)
    section(console, "failed", *(Text(problem, style="red") for problem in data["problems"]))


def _print_many(console: Console, data: dict[str, Any]) -> None:
    console.print(table(console, MANY, [_line(env) for env in data["envs"]]))
    for lacking in data["missing"]:
        text = f"! {', '.join(lacking['targets'])}: not installed. Run: {lacking['command']}"
        console.print(Text(text, style="yellow"))
    failed = sum(bool(env["problems"]) for env in data["envs"])
    console.print(f"\n{len(data['envs'])} checked, {failed} failed", markup=False)


def _line(env: dict[str, Any]) -> list[Cell]:
    return [
        env["env"],
        ", ".join(env["variants"]),
        " / ".join(dict.fromkeys((env["engine"], env["eval_engine"]))),
        f"{env['episodes']:,}",
        _seeds(env),
        _picture(env),
        f"{env['seconds']:.1f}",
        Text("failed", style="bold red") if env["problems"] else Text("ok", style="green"),
    ]


def _seeds(env: dict[str, Any]) -> str:
    if not env["repeats"]:
        return "not checked" if env["repeats"] is None else "not repeated"
    return "repeated" if env["varies"] else "repeated; all the same"


def _picture(env: dict[str, Any]) -> str:
    return "none" if env["picture"] is None else "{1} x {0}".format(*env["picture"])


def _print_one(console: Console, data: dict[str, Any]) -> None:
    console.print(Text(data["target"], style="bold"))
    console.print(facts_grid(_facts(data)))
    console.print()
    observations: list[list[Cell]] = [
        [
            part["name"],
            part["space"],
            str(tuple(part["shape"])),
            part["dtype"],
            "partly bounded" if part["partly_bounded"] else span(*part["declared"]),
            span(*part["seen"]),
        ]
        for part in data["observations"]
    ]
    columns = [Column(title) for title in ("observation", "space", "shape", "dtype", "declared", "seen")]
    console.print(table(console, columns, observations))
    console.print()
    titles = {"return": "return", "length": "length", "reward": "reward a step"}
    statistics = [[titles[key], *(number(data[key][name], 3) for name in STATISTICS)] for key in titles]
    console.print(table(console, [Column("random actions"), *right(*STATISTICS)], statistics))
    look_at(console, data["notes"])


def _facts(data: dict[str, Any]) -> list[tuple[str, Cell]]:
    endings = f"{data['terminated']:,} terminated, {data['truncated']:,} cut by a time limit"
    steps = f"{data['steps']:,} in {data['seconds']:.2f} s of stepping"
    exact = data["exact_resume"]
    left = f": {', '.join(data['actions_left'])} (env.forbid)" if data["actions_left"] else ""
    return [
        ("engine", f"{data['engine']}: {data['why']}"),
        ("envs", str(data["n_envs"])),
        ("rate", f"{data['steps_per_second']:,.0f} steps/s ({steps})"),
        ("resume", "exact: episodes go on where they were" if exact else "episodes in progress start again"),
        ("seeds", _seeds(data)),
        ("picture", _picture(data)),
        ("actions", data["action_space"] + (", masked" if data["masks"] else "") + left),
        ("episodes", f"{data['episodes']:,}: {endings}"),
        ("components", ", ".join(f"{name} {mean:.3f}" for name, mean in data["components"].items())),
    ]
