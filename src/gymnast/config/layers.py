"""Layers of settings: who extends whom, merged key by key, each value remembering where it came from."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymnast.config import files
from gymnast.config.algos import settings_of
from gymnast.config.files import PRESETS, KeyPath, YamlFile
from gymnast.config.problems import MOST_PROBLEMS, ConfigError, line
from gymnast.config.schema import RunConfig
from gymnast.core.errors import did_you_mean
from gymnast.core.registry import ALGOS

SECTIONS = tuple(RunConfig.model_fields)
VARIANT_KEYS = ("about", "extends", *SECTIONS, "search")
SWITCHED_OFF_BY_EMPTY = {("stages",), ("tasks",)}  # {} of these means none, not "nothing to add"
RL_ZOO = (
    "this is a file of RL Zoo's. Here settings are in sections: n_timesteps is train.total_timesteps, n_envs is "
    "env.n_envs, the rest is in algo and agent. `gymnast config show CartPole-v1:zoo` shows one of its configs."
)


@dataclass(frozen=True)
class Layer:
    """Settings from one place; `source` names the place of a key."""

    data: dict[str, Any]
    source: Callable[[KeyPath], str]
    preset: str = ""  # that it is of; none: a user's own
    file: Path | None = None  # of a user's own
    inside: frozenset[KeyPath] = frozenset()  # values of which only a part is set: --set algo.learning_rate.end=0
    search: dict[str, Any] = field(
        default_factory=dict
    )  # what is worth searching: key -> range, as `gymnast sweep` reads


@dataclass
class Merged:
    """The layers so far, the later ones on top."""

    data: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def add(self, layer: Layer) -> None:
        self._drop_keys_without_use(layer)
        self._merge(self.data, layer.data, (), layer)

    def _merge(self, into: dict[str, Any], new: dict[str, Any], path: KeyPath, layer: Layer) -> None:
        for name, value in new.items():
            here = (*path, str(name))
            if len(here) == 1 and value is None:  # a section whose keys are all commented out
                continue
            both_maps = isinstance(value, dict) and isinstance(into.get(name), dict)
            both_maps = both_maps and not (value == {} and here in SWITCHED_OFF_BY_EMPTY)
            if both_maps and (here in layer.inside or not _is_one_value(here)):
                self._merge(into[name], value, here, layer)
                if _is_one_value(here):  # a schedule is explained as one value, and its newest part is what changed it
                    self._forget(".".join(here))
                    self.sources[".".join(here)] = layer.source(here)
                continue
            self._forget(".".join(here))
            into[name] = copy.deepcopy(value)
            self._record(here, value, layer)

    def _record(self, path: KeyPath, value: Any, layer: Layer) -> None:
        if isinstance(value, dict) and value and not _is_one_value(path):
            for name, inner in value.items():
                self._record((*path, str(name)), inner, layer)
        else:
            self.sources[".".join(path)] = layer.source(path)

    def _forget(self, key: str) -> None:
        for known in [known for known in self.sources if known == key or known.startswith(f"{key}.")]:
            del self.sources[known]

    def _drop_keys_without_use(self, layer: Layer) -> None:
        """A layer that names another algorithm, or switches the memory off, leaves behind what only that understood."""
        name, algo = _section(layer.data, "algo").get("name"), _section(self.data, "algo")
        if name in list(ALGOS) and algo.get("name", "ppo") != name:
            for key in [key for key in algo if key not in settings_of(name).model_fields]:
                self._drop("algo", key, f"{name} has no {key}")
        if _section(layer.data, "agent").get("memory", "") is None:
            for key in ("memory_size", "sequence_length", "forget_bias"):
                self._drop("agent", key, "agent.memory is null")

    def _drop(self, section: str, name: str, why: str) -> None:
        held, key = _section(self.data, section), f"{section}.{name}"
        if name in held:
            del held[name]
            was = self.sources.get(key, "preset")
            self._forget(key)
            self.sources[key] = f"{was}; dropped: {why}"


def _section(data: dict[str, Any], name: str) -> dict[str, Any]:
    section = data.get(name)
    return section if isinstance(section, dict) else {}


def _is_one_value(path: KeyPath) -> bool:
    """Schedules are written as mappings but replaced whole."""
    return path[0] == "algo" and len(path) == 2


def check_keys(file: YamlFile) -> list[str]:
    """Keys above the sections that nobody reads."""
    problems: list[str] = []

    def refuse_unknown(mapping: Any, known: Sequence[str], path: KeyPath) -> None:
        if not isinstance(mapping, dict):
            problems.append(f"{file.at(path)}: {'.'.join(path)}: must be a mapping of keys.")
            return
        for name in [name for name in mapping if name not in known][:MOST_PROBLEMS]:
            hint = did_you_mean(name, known) or f" Known: {', '.join(known)}."
            problems.append(f"{file.at((*path, name))}: {'.'.join((*path, name))}: unknown key.{hint}")

    def refuse_no_mapping(block: Any, path: KeyPath) -> None:
        if isinstance(block, dict) and not isinstance(block.get("search") or {}, dict):
            problems.append(
                f"{file.at(path)}: search: must be a mapping, like {{algo.learning_rate: log(1e-4, 1e-2)}}."
            )
            block["search"] = None

    settings = [value for value in file.data.values() if isinstance(value, dict)]
    if any("n_timesteps" in values and values.keys() & {"policy", "n_envs"} for values in settings):
        return [f"{file.label}: {RL_ZOO}"]
    if "variants" not in file.data:
        refuse_unknown({k: v for k, v in file.data.items() if k != "facts"}, ("facts", "variants", *VARIANT_KEYS), ())
        refuse_no_mapping(file.data, ("search",))
        return problems
    refuse_unknown(file.data, ("facts", "variants"), ())
    refuse_unknown(file.data["variants"], list(file.data["variants"] or ()), ("variants",))
    if isinstance(file.data["variants"], dict):
        for name, variant in file.data["variants"].items():
            refuse_unknown(variant, VARIANT_KEYS, ("variants", str(name)))
            refuse_no_mapping(variant, ("variants", str(name), "search"))
    return problems


def variant_names(file: YamlFile) -> list[str]:
    variants = file.data.get("variants")
    return [str(name) for name in variants] if isinstance(variants, dict) else []


@dataclass(frozen=True)
class Place:
    """A file that may be extended: a preset, shared defaults, or a user's file."""

    file: YamlFile
    name: str
    env_id: str | None = None  # of a preset
    path: Path | None = None  # of a user's file
    problems: tuple[str, ...] = ()  # keys above the sections that nobody reads

    @property
    def is_preset(self) -> bool:
        return self.path is None

    @property
    def is_shared(self) -> bool:
        """Settings for envs that have no preset."""
        return self.is_preset and self.env_id is None


def preset_place(name: str) -> Place:
    return Place(files.read_preset(name), name, env_id=None if name.startswith("defaults/") else name)


def user_place(path: Path) -> Place:
    """A file by path; a preset's own file is the preset."""
    inside = path.resolve().is_relative_to(PRESETS)
    env_id = path.resolve().relative_to(PRESETS).with_suffix("").as_posix() if inside else None
    file = files.read_file(path)
    variants, problems = file.data.get("variants", {}), check_keys(file)
    if f"{file.label}: {RL_ZOO}" in problems or not isinstance(variants, dict):
        raise ConfigError(problems)
    if not all(isinstance(block, dict) for block in variants.values()):
        raise ConfigError(problems)
    return Place(file, str(path), env_id, path, tuple(problems))


def defaults_place(env_id: str, variant: str | None) -> Place:
    """For an env without a preset: what its family shares, or what any env has, where that has no such variant."""
    from gymnast.envs.suites import suite_of

    family = preset_place(suite_of(env_id).defaults)
    return family if variant is None or variant in variant_names(family.file) else preset_place(files.ANY_ENV)


def split_target(target: str) -> tuple[str, str | None]:
    """("CartPole-v1", "ppo") of "CartPole-v1:ppo". Gymnasium's "module:Env-v0" is an env id, not a variant."""
    name, _, variant = target.rpartition(":")
    if not name or variant.endswith((".yaml", ".yml")) or (variant.rpartition("-v")[2].isdigit() and "-v" in variant):
        return target, None
    return name, variant


def choose_variant(place: Place, variant: str | None) -> str | None:
    """The variant asked for, or the file's first; None in a file without variants."""
    names = variant_names(place.file)
    if not names:
        if variant is not None:
            raise ConfigError([f"{place.file.label}: has no variants, so no {variant!r}. Leave out ':{variant}'."])
        return None
    if variant is None:
        return names[0]
    if variant not in names:
        raise ConfigError(
            [f"{place.name}: unknown variant {variant!r}.{did_you_mean(variant, names)} Known: {', '.join(names)}."]
        )
    return variant


def layers_of(place: Place, variant: str | None, trail: tuple[str, ...] = ()) -> list[Layer]:
    """The layers of a variant, what it extends first."""
    label = f"{place.name}:{variant}" if variant else place.name
    if label in trail:
        raise ConfigError([f"{place.file.label}: extends runs in a circle: {' -> '.join((*trail, label))}."])
    prefix: KeyPath = ("variants", variant) if variant else ()
    block = place.file.data["variants"][variant] if variant else place.file.data
    below: list[Layer] = []
    if (base := block.get("extends")) is not None:
        below = _extended(place, prefix, base, (*trail, label))
    settings = {key: value for key, value in block.items() if key in SECTIONS}
    if place.env_id:
        settings = {**settings, "env": {"id": place.env_id, **(settings.get("env") or {})}}

    def source(path: KeyPath) -> str:
        return f"{place.file.label} ({variant})" if place.is_preset else place.file.at((*prefix, *path))

    preset, search = place.name if place.is_preset else "", block.get("search") or {}
    return [*below, Layer(settings, source, preset, place.path, search=search)]


def merge(stack: Sequence[Layer]) -> Merged:
    merged = Merged()
    for layer in stack:
        merged.add(layer)
    return merged


def search_of(stack: Sequence[Layer], algo: str) -> dict[str, Any]:
    """What is worth searching: what any env shares for the algorithm, then layer by layer; null takes a key out."""
    shared = preset_place(files.ANY_ENV)
    common = layers_of(shared, algo) if algo in variant_names(shared.file) else []
    found = {key: value for layer in (*common, *stack) for key, value in layer.search.items()}
    return {key: value for key, value in found.items() if value is not None}


def base_of(data: dict[str, Any]) -> list[Layer]:
    """What the id of these settings' env stands for: its preset, or the defaults for any env; the variant of their
    algorithm, where there is one of that name."""
    env_id, algo = str(_section(data, "env").get("id", "")), _section(data, "algo").get("name")
    of_env = preset_place(env_id) if files.is_preset(env_id) else defaults_place(env_id, None)
    for place in (of_env, preset_place(files.ANY_ENV)):
        names = variant_names(place.file)
        if algo is None or algo in names:
            return layers_of(place, names[0] if algo is None else algo)
    return []


def env_layers(env_id: str, variant: str | None, source: str) -> list[Layer]:
    """Of an env without a preset."""
    place = defaults_place(env_id, variant)
    return [*layers_of(place, choose_variant(place, variant)), Layer({"env": {"id": env_id}}, lambda path: source)]


def _extended(place: Place, prefix: KeyPath, base: Any, trail: tuple[str, ...]) -> list[Layer]:
    where = place.file.at((*prefix, "extends"))
    if not isinstance(base, str):
        raise ConfigError([line(where, "extends", "must name one variant, like ppo or CartPole-v1:ppo.", base)])
    if base in variant_names(place.file):
        return layers_of(place, base, trail)
    name, variant = split_target(base)
    if name.endswith((".yaml", ".yml")):
        other = user_place((place.path.parent if place.path else Path()) / name)
        if other.problems:
            raise ConfigError(other.problems)
    elif files.is_preset(name):
        other = preset_place(name)
    else:
        known = [*variant_names(place.file), *files.preset_ids(), *files.shared_names()]
        near = did_you_mean(name, known)
        in_family = defaults_place(name, None).name != files.ANY_ENV  # a game like others: no typing error
        if re.fullmatch(r".+-v\d+", name) and (":" in name or not near or in_family):
            return env_layers(name, variant, where)
        raise ConfigError([line(where, "extends", f"unknown.{near}", base)])
    try:
        return layers_of(other, choose_variant(other, variant), trail)
    except ConfigError as error:
        raise ConfigError(f"{where}: extends = {base}: {problem}" for problem in error.problems) from None


def override_layer(overrides: Sequence[tuple[str, str]]) -> Layer:
    """One layer of all `key=value` strings, each with the option it came through; the last of equals wins."""
    data: dict[str, Any] = {}
    sources: dict[KeyPath, str] = {}
    inside: set[KeyPath] = set()
    problems = []
    for option, text in overrides:
        key, equals, raw = text.partition("=")
        path = tuple(part.strip() for part in key.split("."))
        if not equals or not all(path) or len(path) > files.DEEPEST:
            problems.append(f"{option} {text}: write key=value, like algo.learning_rate=3e-4 or env.kwargs.gravity=-5.")
            continue
        try:
            value = files.parse_value(raw)
        except ConfigError:
            problems.append(f"{option} {text}: {raw!r} is not a YAML value. Quote text with special characters.")
            continue
        into = data
        for depth, part in enumerate(path[:-1], start=1):
            if not isinstance(into.get(part), dict):
                into[part] = {}
            into = into[part]
            inside.add(path[:depth])
        into[path[-1]] = value
        sources[path] = option
    if problems:
        raise ConfigError(problems)

    def source(path: KeyPath) -> str:
        while path and path not in sources:
            path = path[:-1]
        return sources.get(path, "--set")

    return Layer(data, source, inside=frozenset(inside))
