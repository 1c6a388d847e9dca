"""`gymnast sweep` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.terminal.format import Column, output, table
from gymnast.verbs.sweep.page import conclusion
from gymnast.verbs.sweep.run import Swept
from gymnast.verbs.sweep.standings import NUMBERS, TITLES

MOST = 12  # configs that are listed


def print_sweep(result: Swept) -> None:
    console = output()
    columns = [
        Column(title, right=index in NUMBERS, wraps=40 * (title == "settings")) for index, title in enumerate(TITLES)
    ]
    console.print(table(console, columns, [standing.cells for standing in result.standings[:MOST]]))
    if len(result.standings) > MOST:
        print(f"... and {len(result.standings) - MOST} more")
    print()
    for line in conclusion(result.found, result.target, result.variant):
        console.print(Text(line))
    for config, why in result.failed.items():
        console.print(Text(f"{config} failed: {why}", style="red"))
    for node, cells in result.nodes.items():
        console.print(Text(f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'} on {node}"))
    print(f"wrote {result.report}")
