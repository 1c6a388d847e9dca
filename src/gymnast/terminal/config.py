"""`gymnast config` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.config import Explained
from gymnast.core.text import setting
from gymnast.terminal.format import Cell, Column, facts_grid, output, table
from gymnast.verbs.config import CheckedConfig, ExplainedConfig, FormattedConfigs, ShownConfig

EXPLAIN = (
    Column("key", style="bold"),
    Column("value", wraps=12),
    Column("from", wraps=16),
    Column("meaning", style="dim", wraps=24, drop=1),
)


def print_config(result: ShownConfig) -> None:
    print(result.text, end="")


def print_explained(result: ExplainedConfig) -> None:
    console = output()
    rows = [_cells(row) for row in result.settings]
    if len(rows) == 1:
        console.print(facts_grid([(column.title, cell) for column, cell in zip(EXPLAIN, rows[0], strict=True)]))
    else:
        console.print(table(console, EXPLAIN, rows))


def _cells(row: Explained) -> list[Cell]:
    """What somebody set stands out from what is a default."""
    untouched = row.source == "default"
    source = Text(row.source, style="dim" if untouched else "cyan")
    return [row.key, Text(setting(row.value), style="default" if untouched else "bold cyan"), source, row.help]


def print_checked(result: CheckedConfig) -> None:
    print(f"{result.file}: no problems")


def print_formatted(result: FormattedConfigs) -> None:
    for file in result.files:
        print(f"{file}: {'formatted' if file in result.formatted else 'in order already'}")
