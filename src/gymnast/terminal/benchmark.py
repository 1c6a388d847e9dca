"""`gymnast benchmark` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.core.text import number, score
from gymnast.terminal.format import Cell, Column, output, right, table
from gymnast.verbs.benchmark.page import GAPS, SOLVED, gap_rows, seconds, solved_cells, with_interval
from gymnast.verbs.benchmark.run import Benchmarked
from gymnast.verbs.benchmark.summary import MEASURES, RowSummary


def print_benchmark(result: Benchmarked) -> None:
    console = output()
    solving: list[list[Cell]] = [
        [row.target, who, *solved_cells(row, side)]
        for row in result.rows
        if not row.equal_steps
        for who, side in row.sides.items()
    ]
    if solving:
        columns = [Column("target"), Column("who"), *map(Column, SOLVED[:2]), *right(*SOLVED[2:])]
        console.print(table(console, columns, solving))
    titles = ("runs", *(f"{name}, IQM [95 %]" for name in MEASURES.values()), "seconds")
    for row in result.rows:
        if row.equal_steps:
            console.print(Text(f"{row.target}, {number(row.steps)} steps", style="bold"))
            console.print(table(console, [Column(""), *right(*titles)], _equal_rows(row)))
    if result.differences:
        console.print(table(console, [*map(Column, GAPS[:3]), *right(*GAPS[3:])], gap_rows(result.differences)))
    for row in result.rows:
        for node, runs in row.nodes.items():
            console.print(Text(f"{row.target} on {node}: {', '.join(runs)}"))
    for row in result.rows:
        if row.runs:
            console.print(Text(f"runs of {row.label}: {', '.join(run.split('-')[0] for run in row.runs)}"))
    print(f"wrote {result.results}")


def _equal_rows(row: RowSummary) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    for who, side in row.sides.items():
        found = ["" if side.iqm is None else with_interval(side.iqm[name]) for name in MEASURES]
        lines.append([who, str(side.runs), *found, seconds(side.seconds)])
    for who, chances in row.improvement.items():
        lines.append([f"chance to beat {who}", "", *(with_interval(chances[name], score) for name in MEASURES), ""])
    return lines
