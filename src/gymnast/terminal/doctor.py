"""`gymnast doctor` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.terminal.format import Cell, Column, facts_grid, output, section, table
from gymnast.verbs.result import Facts

EXTRAS = (
    Column("extra", style="bold"),
    Column("installed"),
    Column("brings", style="dim", drop=1),
    Column("add it with", style="cyan"),
)


def print_health(result: Facts) -> None:
    console, health = output(), result.data
    folder = health["runs_dir"]
    count = folder["runs"]
    state = f"{count} run{'s' * (count != 1)}" if folder["exists"] else "made by the first run"
    facts: list[tuple[str, Cell]] = [
        ("python", f"{health['python']}, {health['executable']}"),
        ("system", f"{health['os']}, {health['cores']} cores"),
        ("packages", ", ".join(f"{name} {version}" for name, version in health["packages"].items() if version)),
        ("devices", ", ".join(f"{name} ({said})" for name, said in health["devices"].items() if said)),
        ("runs", f"{folder['path']}: {state}, {folder['free_bytes'] / 1e9:,.1f} GB free"),
    ]
    console.print(facts_grid(facts))
    console.print()
    rows: list[list[Cell]] = []
    for name, extra in health["extras"].items():
        there = Text(extra["version"] or "yes", style="green") if extra["installed"] else Text("-", style="dim")
        rows.append([name, there, extra["brings"], extra["command"] or ""])
    console.print(table(console, EXTRAS, rows))
    if not health["problems"]:
        console.print("\nno problems", style="green")
    section(console, "problems", *(Text(f"! {problem}", style="bold red") for problem in health["problems"]))
