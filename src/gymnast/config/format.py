"""`config fmt`: keys in the schema's order. Whole lines move, so comments stay with the key they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode

from gymnast.config.algos import settings_of
from gymnast.config.facts import EnvFacts
from gymnast.config.files import KeyPath, parse_yaml, read_file
from gymnast.config.layers import VARIANT_KEYS
from gymnast.config.problems import fields_at
from gymnast.config.schema import RunConfig
from gymnast.core.errors import UserError
from gymnast.core.registry import ALGOS


def format_file(path: str | Path, write: bool = True) -> bool:
    """Orders a file's keys in place; True where that changed it. With write=False only tells."""
    path = Path(path)
    read_file(path)  # a missing or broken file is refused before anything is touched
    before = path.read_text(encoding="utf-8")
    after = format_text(before, str(path))
    if write and after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def format_text(text: str, label: str = "text") -> str:
    data = parse_yaml(text, label).data
    rows = [row.rstrip() for row in text.splitlines()]
    node = YAML(typ="safe", pure=True).compose("\n".join(rows) + "\n")
    if isinstance(node, MappingNode) and not node.flow_style:
        key_row = node.value[0][0].start_mark.line
        first = _first_row(rows, key_row) or key_row  # a comment that begins the file is about all of it, and stays
        rows = rows[:first] + _ordered(node, rows, first, len(rows), (), data)
    while rows and not rows[-1]:
        rows.pop()
    result = "\n".join(rows) + "\n"
    if parse_yaml(result, label).data != data:  # text blocks that end in blanks, say
        raise UserError(f"{label}: cannot be put in order without changing what it says; it was left alone.")
    return result


def _first_row(rows: Sequence[str], key_row: int) -> int:
    """The row where a key's own comment begins: comment lines right above it, no blank between."""
    indent = len(rows[key_row]) - len(rows[key_row].lstrip())
    while key_row > 0 and rows[key_row - 1].startswith(" " * indent + "#"):
        key_row -= 1
    return key_row


def _ordered(node: MappingNode, rows: list[str], first: int, end: int, path: KeyPath, data: Any) -> list[str]:
    """The rows of a block mapping, its keys in order."""
    starts = [_first_row(rows, key.start_mark.line) for key, _ in node.value]
    starts[0] = first
    blocks: list[tuple[str, list[str], int]] = []
    for (key, value), start, stop in zip(node.value, starts, [*starts[1:], end], strict=True):
        inner = rows[start:stop]
        if isinstance(value, MappingNode) and not value.flow_style and value.value:
            row = _first_row(rows, value.value[0][0].start_mark.line)
            inner = rows[start:row] + _ordered(value, rows, row, stop, (*path, key.value), data)
        blank = 0
        while inner and not inner[-1]:  # blank lines separate blocks: they keep their places, not their block
            inner.pop()
            blank += 1
        blocks.append((key.value, inner, min(blank, 1)))
    order = _order(path, data)
    rank = {name: order.index(name) if name in order else len(order) for name, _, _ in blocks}
    gaps = [blank for _, _, blank in blocks]
    result: list[str] = []
    for (_, inner, _), gap in zip(sorted(blocks, key=lambda block: rank[block[0]]), gaps, strict=True):
        result += [*inner, *[""] * gap]
    return result


def _order(path: KeyPath, data: Any) -> list[str]:
    """The keys that may stand at a path, in order; an empty list keeps the writer's order."""
    if path[:1] == ("facts",):
        return fields_at(EnvFacts, path[1:])
    if path[:1] == ("variants",):
        if len(path) == 1:
            return []
        data, path = data["variants"][path[1]], path[2:]
        top = list(VARIANT_KEYS)
    else:
        top = ["facts", "about", "extends", *VARIANT_KEYS[2:], "variants"]
    if not path:
        return top
    if path == ("algo",):
        named = data["algo"].get("name")
        models = [settings_of(name) for name in ([named] if named in list(ALGOS) else ALGOS)]
        return list(dict.fromkeys(name for model in models for name in model.model_fields))
    return fields_at(RunConfig, path)
