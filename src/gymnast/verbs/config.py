"""`gymnast config show|explain`: the config that `train` would use, and where each of its values came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.text import Text

from gymnast import config as configs
from gymnast.core.text import setting
from gymnast.terminal.format import Cell, Column, facts_grid, output, table
from gymnast.verbs.train import resolve_config

EXPLAIN = (
    Column("key", style="bold"),
    Column("value", wraps=12),
    Column("from", wraps=16),
    Column("meaning", style="dim", wraps=24, drop=1),
)


def show_config(target: str, overrides: Sequence[str], as_json: bool = False) -> dict[str, Any]:
    resolved = resolve_config(target, overrides)
    if not as_json:
        click.echo(configs.show(resolved), nl=False)
    return {"target": resolved.target, "config": resolved.config.model_dump(mode="json")}


def explain_config(target: str, key: str | None, overrides: Sequence[str], as_json: bool = False) -> dict[str, Any]:
    resolved = resolve_config(target, overrides)
    rows = configs.explain(resolved, key)
    if not as_json:
        console = output()
        if len(rows) == 1:
            titles = (column.title for column in EXPLAIN)
            console.print(facts_grid(list(zip(titles, _cells(rows[0]), strict=True))))
        else:
            console.print(table(console, EXPLAIN, [_cells(row) for row in rows]))
    settings = [{"key": row.key, "value": row.value, "source": row.source, "meaning": row.help} for row in rows]
    return {"target": resolved.target, "settings": settings}


def _cells(row: configs.Explained) -> list[Cell]:
    """What somebody set stands out from what is a default."""
    untouched = row.source == "default"
    source = Text(row.source, style="dim" if untouched else "cyan")
    return [row.key, Text(setting(row.value), style="default" if untouched else "bold cyan"), source, row.help]
