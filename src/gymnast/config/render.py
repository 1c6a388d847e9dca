"""A config for people: shown, explained, compared, written to a file that loads back."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter

from gymnast.config.load import Resolved
from gymnast.config.problems import known_keys, unknown_key_advice
from gymnast.config.schema import RunConfig
from gymnast.core.errors import UserError
from gymnast.core.schedule import Schedule


class Explained(NamedTuple):
    key: str
    value: Any  # plain data; None for null
    source: str
    help: str


class Difference(NamedTuple):
    key: str
    a: Any
    b: Any


def leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """(dotted key, plain value, description) of every setting, in order."""
    for name, info in type(model).model_fields.items():
        key, value, text = f"{prefix}{name}", getattr(model, name), info.description or ""
        if isinstance(value, BaseModel):
            yield from leaves(value, f"{key}.")
        elif isinstance(value, dict) and value:
            for inner, part in value.items():
                if isinstance(part, BaseModel):
                    yield from leaves(part, f"{key}.{inner}.")
                else:
                    yield f"{key}.{inner}", part, text
        else:
            yield key, _plain(value), text


def _plain(value: Any) -> Any:
    if isinstance(value, Schedule):
        return value.to_form()
    if isinstance(value, list):
        return [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in value]
    return value


def explain(resolved: Resolved, key: str | None = None) -> list[Explained]:
    """Where every value came from and what it means; with `key`, that key or section only."""
    rows = [Explained(name, value, resolved.source(name), text) for name, value, text in leaves(resolved.config)]
    shown = {row.key for row in rows}
    helps = known_keys(RunConfig)
    dropped = [name for name, source in resolved.sources.items() if name not in shown and "; dropped: " in source]
    rows += [Explained(name, None, resolved.sources[name], helps.get(name, "")) for name in dropped]
    if key is None:
        return rows
    chosen = [row for row in rows if row.key == key or row.key.startswith(f"{key}.")]
    if not chosen:
        raise UserError(f"{key}: no such key.{unknown_key_advice(key, [row.key for row in rows], RunConfig)}")
    return chosen


def dump(config: RunConfig) -> str:
    """YAML of the whole config in section order; RunConfig.model_validate of it is an equal config."""
    yaml = YAML()  # the round-trip kind: it alone lets each mapping choose between a block and one line
    yaml.Representer = _NullInWords
    yaml.width = 1000
    parts = []
    for section, values in config.model_dump(mode="json").items():
        if not values:  # a run without tasks or stages does not mention them
            continue
        if isinstance(values, list):  # one a line, with what is set
            block = CommentedMap({section: CommentedSeq([_in_one_line(_set(item)) for item in values])})
        else:
            block = CommentedMap({section: CommentedMap({key: _in_one_line(value) for key, value in values.items()})})
        text = io.StringIO()
        yaml.dump(block, text)
        parts.append(text.getvalue().rstrip("\n") + "\n")
    return "\n".join(parts)


def _set(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is null."""
    kept = {key: _set(value) if isinstance(value, dict) else value for key, value in values.items()}
    return {key: value for key, value in kept.items() if value is not None}


class _NullInWords(RoundTripRepresenter):
    """Writes null where the plain one leaves a gap."""


_NullInWords.add_representer(type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null"))


def _in_one_line(value: Any) -> Any:
    if isinstance(value, dict):
        result: Any = CommentedMap({key: _in_one_line(inner) for key, inner in value.items()})
    elif isinstance(value, list):
        result = CommentedSeq([_in_one_line(inner) for inner in value])
    else:
        return value
    result.fa.set_flow_style()
    return result


def show(resolved: Resolved) -> str:
    """The whole resolved config as YAML."""
    return f"# {resolved.target}\n{dump(resolved.config)}"


def diff(a: RunConfig, b: RunConfig) -> list[Difference]:
    """Keys whose values differ, in order; None where a config has no such key."""
    left = {key: value for key, value, _ in leaves(a) if value != {}}
    right = {key: value for key, value, _ in leaves(b) if value != {}}
    sections = list(RunConfig.model_fields)
    keys = sorted({**left, **right}, key=lambda key: sections.index(key.partition(".")[0]))  # stable within a section
    return [Difference(key, left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)]
