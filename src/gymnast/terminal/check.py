"""`gymnast envs check` for people."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from gymnast.core.text import number, span
from gymnast.terminal.format import Cell, Column, facts_grid, look_at, output, right, table
from gymnast.verbs.envs.check import STATISTICS
from gymnast.verbs.result import Facts


def print_check(result: Facts) -> None:
    console, data = output(), result.data
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
        ("actions", data["action_space"] + (", masked" if data["masks"] else "") + left),
        ("episodes", f"{data['episodes']:,}: {endings}"),
        ("components", ", ".join(f"{name} {mean:.3f}" for name, mean in data["components"].items())),
    ]
