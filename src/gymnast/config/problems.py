"""Everything wrong with a config, at once, one line each: where, which key, its value, what is wrong and the fix."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from gymnast.config.algos import AlgoSettings, RuleProblem, settings_of
from gymnast.config.fields import Named
from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.registry import ALGOS
from gymnast.core.text import cut, setting

_MISSING = object()
MOST_PROBLEMS = 100  # of a config that are looked into


class ConfigError(UserError):
    """All problems of a config; the message is one line a problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(dict.fromkeys(problems))  # two variants of a file may share one
        super().__init__("\n".join(self.problems))


def line(source: str | None, key: str, text: str, value: Any = _MISSING) -> str:
    where = f"{source}: " if source else ""
    shown = "" if value is _MISSING else f" = {cut(setting(value))}"
    return f"{where}{key}{shown}: {text}"


def source_of(sources: Mapping[str, str], key: str) -> str | None:
    """Where a key was set: its own source, one inside it, or the nearest above it."""
    for candidate in (source for name, source in sources.items() if name == key or name.startswith(f"{key}.")):
        return candidate
    while "." in key:
        key = key.rpartition(".")[0]
        if key in sources:
            return sources[key]
    return None


def rule_line(problem: RuleProblem, sources: Mapping[str, str]) -> str:
    """A broken rule, with the place of the key in it that was set last: on the command line, in a file, by a preset."""
    places = [place for key in problem.keys if (place := source_of(sources, key))]
    places.sort(key=lambda place: (not place.startswith("--"), place.startswith("presets/")))
    return line(places[0] if places else None, problem.keys[0], problem.text)


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """The models a field may hold: itself, the members of a union or a mapping, none for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if issubclass(annotation, Named):  # written as one value
            return []
        return [settings_of(name) for name in ALGOS] if annotation is AlgoSettings else [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated, dict, list):
        return [model for part in typing.get_args(annotation) for model in models_of(part)]
    return []


def known_keys(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Every dotted key of a model with its description, sections before what is in them."""
    keys: dict[str, str] = {}
    for name, info in model.model_fields.items():
        keys.setdefault(f"{prefix}{name}", info.description or "")
        by_name = "NAME." if typing.get_origin(info.annotation) is dict else ""
        for inner in models_of(info.annotation):
            for key, text in known_keys(inner, f"{prefix}{name}.{by_name}").items():
                keys.setdefault(key, text)
    return keys


def unknown_key_advice(key: str, siblings: Iterable[str], model: type[BaseModel]) -> str:
    """The nearest known key: the same name elsewhere, else a similar one in the same section, else anywhere."""
    parent, _, leaf = key.rpartition(".")
    everything = known_keys(model)
    same = [known for known in everything if known.rpartition(".")[2] == leaf and known != key]
    if same:
        return f" Did you mean {' or '.join(repr(known) for known in same)}?"
    if near := did_you_mean(leaf, siblings):
        return re.sub(r"'(\w+)'", lambda match: f"'{parent}.{match[1]}'" if parent else match[0], near)
    by_leaf = {known.rpartition(".")[2]: known for known in everything}
    return re.sub(r"'(\w+)'", lambda match: repr(by_leaf[match[1]]), did_you_mean(leaf, by_leaf))


def _key_of(location: tuple[Any, ...]) -> str:
    """pydantic's location as a dotted key. A form of a value that has several, tagged like <range>, is no key."""
    text = ""
    for part in location:
        if str(part).startswith("<"):
            continue
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def fields_at(model: type[BaseModel], path: Iterable[str], algo: str = "ppo") -> list[str]:
    """The keys that may stand inside a section; none where the path leads to no section."""
    parts = iter(path)
    for part in parts:
        info = model.model_fields.get(part.partition("[")[0])
        models = models_of(info.annotation) if info else []
        if not models:
            return []
        named = [m for m in models if "name" in m.model_fields and m.model_fields["name"].default == algo]
        model = (named or models)[0]
        if info and typing.get_origin(info.annotation) is dict and next(parts, None) is None:
            return []  # a mapping by name: any name may stand there
    return list(model.model_fields)


_PLAIN = {
    "missing": "is missing.",
    "finite_number": "must be a finite number.",
    "string_type": "must be text.",
    "list_type": "must be a list, like [64, 64].",
    "dict_type": "must be a mapping, like {name: value}.",
    "model_type": "must be a mapping, like {name: value}.",
    "model_attributes_type": "must be a mapping, like {name: value}.",
    "string_too_short": "must not be empty.",
}


def _sentence(error: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        return f"must be one of {', '.join(choices)}.{did_you_mean(str(error['input']), choices)}"
    if kind.startswith("int_"):
        return "must be a whole number."
    if kind.startswith("float_"):
        return "must be a number."
    if kind.startswith("bool_"):
        return "must be true or false."
    if kind == "value_error":
        return str(context["error"])
    for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if name in context:
            return f"must be {words} {context[name]}."
    return f"{error['msg']}."


def explain_errors(
    error: ValidationError,
    model: type[BaseModel],
    data: Mapping[str, Any],
    sources: Mapping[str, str],
    label: str | None = None,  # names the place of a key that is in none
) -> tuple[list[str], list[str]]:
    """The lines of a failed validation, and the keys to blame."""
    section = data.get("algo")
    algo = str(section.get("name", "ppo")) if isinstance(section, Mapping) else "ppo"
    lines, keys = [], []
    for item in error.errors(include_url=False)[:MOST_PROBLEMS]:
        if item["type"] == "rules":
            lines += [rule_line(problem, sources) for problem in item["ctx"]["problems"]]
            continue
        key = _key_of(item["loc"]) or "file"
        value: Any = item["input"]
        if item["type"] == "unknown_algo":
            key, value = f"{key}.name", item["ctx"]["name"]
            text = f"must be one of {', '.join(ALGOS)}.{did_you_mean(str(value), list(ALGOS))}"
        elif item["type"] == "extra_forbidden":
            siblings = fields_at(model, key.split(".")[:-1], algo)
            text = f"unknown key.{_owner(key, algo) or unknown_key_advice(key, siblings, model)}"
        elif key == "algo" and isinstance(value, str):
            text = f"is a section. The algorithm is part of the target, ENV:{value}, or set algo.name={value}."
        else:
            text = _sentence(item)
        if item["type"] == "missing" or key == "file":
            value = _MISSING
        keys.append(key)
        placed = key.rpartition(".")[0] if item["type"] == "missing" else key.partition("[")[0]
        lines.append(line(source_of(sources, placed) or label, key, text, value))
    return lines, keys


def _owner(key: str, algo: str) -> str:
    """An algorithm's key set for another algorithm is no typo: say whose it is."""
    section, _, leaf = key.partition(".")
    owners = [name for name in ALGOS if leaf in settings_of(name).model_fields]
    if section != "algo" or not owners or algo not in list(ALGOS):
        return ""
    return f" {algo} has no {leaf}; it belongs to {' and '.join(owners)}."
