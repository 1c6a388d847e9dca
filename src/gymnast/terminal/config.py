"""`gymnast config` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast import config as configs
from gymnast.core.text import setting
from gymnast.terminal.format import Column, facts_grid, output, table
from gymnast.verbs.config import FormattedConfigs, ShownConfig
from gymnast.verbs.result import Facts

EXPLAIN = (
    Column("key", style="bold"),
    Column("value", wraps=12),
    Column("from", wraps=16),
    Column("meaning", style="dim", wraps=24, drop=1),
)


def print_config(result: ShownConfig) -> None:
    print(configs.show(result.resolved), end="")


def print_explained(result: Facts) -> None:
    console, rows = output(), []
    for row in result.data["settings"]:  # what somebody set stands out from what is a default
        styles = ("default", "dim") if row["source"] == "default" else ("bold cyan", "cyan")
        value, source = Text(setting(row["value"]), style=styles[0]), Text(row["source"], style=styles[1])
        rows.append([row["key"], value, source, row["meaning"]])
    if len(rows) == 1:
        console.print(facts_grid([(column.title, cell) for column, cell in zip(EXPLAIN, rows[0], strict=True)]))
    else:
        console.print(table(console, EXPLAIN, rows))


def print_checked(result: Facts) -> None:
    print(f"{result.data['file']}: no problems")


def print_formatted(result: FormattedConfigs) -> None:
    for file in result.files:
        print(f"{file}: {'formatted' if file in result.formatted else 'in order already'}")
