"""`gymnast envs check` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.core.text import number, span
from gymnast.terminal.format import Cell, Column, facts_grid, look_at, output, table
from gymnast.verbs.envs.check import STATISTICS, EnvCheck


def print_check(data: EnvCheck) -> None:
    console = output()
    console.print(Text(data.target, style="bold"))
    console.print(facts_grid(_facts(data)))
    console.print()
    observations: list[list[Cell]] = [
        [
            part.name,
            part.space,
            str(tuple(part.shape)),
            part.dtype,
            "partly bounded" if part.partly_bounded else span(*part.declared),
            span(*part.seen),
        ]
        for part in data.observations
    ]
    columns = [Column(title) for title in ("observation", "space", "shape", "dtype", "declared", "seen")]
    console.print(table(console, columns, observations))
    console.print()
    statistics: list[list[Cell]] = [
        [name, *(number(getattr(found, column), 3) for column in STATISTICS)]
        for name, found in (("return", data.returns), ("length", data.length), ("reward a step", data.reward))
    ]
    columns = [Column("random actions"), *(Column(title, right=True) for title in STATISTICS)]
    console.print(table(console, columns, statistics))
    look_at(console, data.notes)


def _facts(data: EnvCheck) -> list[tuple[str, Cell]]:
    endings = f"{data.terminated:,} terminated, {data.truncated:,} cut by a time limit"
    resume = "exact: episodes go on where they were" if data.exact_resume else "episodes in progress start again"
    return [
        ("engine", f"{data.engine}: {data.why}"),
        ("envs", str(data.n_envs)),
        ("rate", f"{data.steps_per_second:,.0f} steps/s ({data.steps:,} in {data.seconds:.2f} s of stepping)"),
        ("resume", resume),
        ("actions", data.action_space + (", masked" if data.masks else "")),
        ("episodes", f"{data.episodes:,}: {endings}"),
        ("components", ", ".join(f"{name} {mean:.3f}" for name, mean in data.components.items())),
    ]
