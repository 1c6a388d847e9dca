"""`gymnast sweep` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.core.text import assignment, number, score
from gymnast.terminal.format import Cell, Column, output, right, table
from gymnast.verbs.sweep.run import Standing, Swept

MOST = 12  # configs that are listed


def print_sweep(result: Swept) -> None:
    console = output()
    columns = [Column("config"), Column("settings", wraps=40), *right("round", "seeds", "steps", "score", "seconds")]
    rows = [standing_cells(standing) for standing in result.standings[:MOST]]
    console.print(table(console, [*columns, Column("front")], rows))
    if len(result.standings) > MOST:
        print(f"... and {len(result.standings) - MOST} more")
    print()
    for line in conclusion(result):
        console.print(Text(line))


def standing_cells(standing: Standing) -> list[Cell]:
    values = ", ".join(assignment(key, value) for key, value in standing.values.items()) or "(base)"
    steps = f"{standing.steps:,}{' stopped' if standing.stopped else ''}"
    numbers = [str(standing.round), str(standing.seeds), steps, number(standing.score), f"{standing.seconds:,.1f}"]
    return [standing.config, values, *numbers, "*" if standing.on_front else ""]


def conclusion(result: Swept) -> list[str]:
    """What the fresh seeds say."""
    values = ", ".join(assignment(key, value) for key, value in result.winner.items())
    lines = [f"best of the search: {values}"]
    for name, compared in result.confirmed.items():
        found, chance = compared.difference, compared.chance
        lines.append(
            f"on {compared.pairs} fresh seeds its score minus that of {name}: {number(found.value)} (95 % interval "
            f"{number(found.low)} to {number(found.high)}); chance that a run of it is better: {score(chance.value)}"
        )
    if result.variant is None:
        return [*lines, f"no better one found than {result.target}"]
    return [*lines, f"better than {result.target}: wrote {result.variant}", f"gymnast train {result.variant}"]
