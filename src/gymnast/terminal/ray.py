"""`gymnast ray` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.terminal.format import Cell, Column, output, table
from gymnast.verbs.result import Facts


def print_how_to(result: Facts) -> None:
    console = output()
    for place, commands in result.data.items():
        console.print(Text(place, style="yellow"))
        for command, why in commands:
            console.print(Text(f"  {command}", style="bold cyan"), soft_wrap=True)
            console.print(Text(f"      {why}", style="dim"), soft_wrap=True)


def print_status(result: Facts) -> None:
    console, data = output(), result.data
    names = ("address", "node", "cores", "GPUs", "GiB", "")
    columns = tuple(Column(name, right=name in ("cores", "GPUs", "GiB")) for name in names)
    rows: list[list[Cell]] = []
    for node in data["nodes"]:
        about = [*["head"] * node["head"], *(f"{name}={value}" for name, value in node["labels"].items())]
        memory = f"{node['memory'] / 2**30:.1f}"
        numbers = [str(node["cores"]), str(node["gpus"]), memory]
        rows.append([node["address"], node["node"], *numbers, ", ".join(about)])
    console.print(table(console, columns, rows))
    console.print(f"{data['free_cores']} of {sum(node['cores'] for node in data['nodes'])} cores are free")
    for run in data["runs"]:
        console.print(f"{run} is trained here")
