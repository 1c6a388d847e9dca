"""One loader for every command: code default < shared defaults < preset variant < file < command line."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from gymnast.config import layers
from gymnast.config.facts import EnvFacts
from gymnast.config.fields import RuleProblem
from gymnast.config.files import ANY_ENV, YamlFile, is_preset, preset_ids, read_preset
from gymnast.config.problems import ConfigError, explain_errors, line, rule_line, source_of
from gymnast.config.schema import EnvConfig, RunConfig, StopConfig
from gymnast.config.tuned import settle_n_envs
from gymnast.core.errors import UserError
from gymnast.core.tasks import ALL_SOLVED
from gymnast.core.trust import require_trust

SPACES = "from the spaces"


@dataclass(frozen=True)
class Resolved:
    """A valid config, what is known of its env, and where each value came from."""

    config: RunConfig
    facts: EnvFacts | None
    sources: dict[str, str]  # dotted key -> place; a key that is not here has its code default
    target: str
    variant: str | None = None  # of the preset or file; None: a file without variants
    generic: bool = False  # an env without a preset: values that depend on its spaces may still be filled in
    search: dict[str, Any] = field(default_factory=dict)  # what is worth searching, as text: `gymnast sweep` reads it

    def source(self, key: str) -> str:
        return source_of(self.sources, key) or "default"

    @property
    def threshold(self) -> float | None:
        """Mean return that counts as solved, from the config or the facts."""
        if self.config.tasks:  # each has its own, and the run's score is relative to them
            return ALL_SOLVED
        if self.config.stop.threshold is not None:
            return self.config.stop.threshold
        facts = scored_facts(self.config, self.facts)
        return facts.solved.threshold if facts and facts.solved else None


class Preset(NamedTuple):
    id: str
    variants: list[str]
    family: str
    description: str


def load(
    target: str,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    steps: int | None = None,
    require_env: Callable[[str], object] | None = None,
) -> Resolved:
    """Resolves "ENV", "ENV:VARIANT" or "file.yaml[:VARIANT]" with `key=value` overrides; ConfigError has all problems.

    `require_env` refuses an id that does not exist; it is asked only about an env without a preset.
    """
    place, variant = find(target, require_env)
    stack = layers.layers_of(place, variant)
    name = f"{place.name}:{variant}" if variant else place.name
    if place.is_shared:
        env_id = layers.split_target(target)[0]
        name = f"{env_id}:{variant}"
        stack.append(layers.Layer({"env": {"id": env_id}}, lambda path: "command line"))
    stack.append(_given(overrides, seed, steps))
    if place.env_id is None and not any(layer.preset for layer in stack):
        stack = [*layers.base_of(layers.merge(stack).data), *stack]  # a file that extends nothing begins as its id does
    merged = layers.merge(stack)
    for path in {layer.file for layer in stack if layer.file}:
        require_trust(path, merged.data)
    generic = any(layer.preset == ANY_ENV for layer in stack)
    settle_n_envs(merged.data, merged.sources, EnvConfig.model_fields["n_envs"].default)
    own_facts = None if place.is_preset else facts_of(place.file)
    try:
        config, facts = _validated(merged.data, merged.sources, own_facts, place.file.label)
    except ConfigError as error:
        raise ConfigError((*place.problems, *error.problems)) from None
    if place.problems:
        raise ConfigError(place.problems)
    if own_facts is not None:
        config = _with_floor(config, own_facts)
    search = layers.search_of(stack, config.algo.name)
    return Resolved(config, facts, merged.sources, name, variant, generic, search)


def _given(overrides: Sequence[str], seed: int | None = None, steps: int | None = None) -> layers.Layer:
    """What stands on the command line, each with its option."""
    shortcuts = [("--seed", "train.seed", seed), ("--steps", "train.total_timesteps", steps)]
    given = [(option, f"{key}={value}") for option, key, value in shortcuts if value is not None]
    return layers.override_layer([*(("--set", text) for text in overrides), *given])


def find(target: str, require_env: Callable[[str], object] | None = None) -> tuple[layers.Place, str | None]:
    """The file and variant a target names."""
    name, variant = layers.split_target(target)
    if name.endswith((".yaml", ".yml")):
        place = layers.user_place(Path(name))
    elif is_preset(name) and not name.startswith("defaults/"):
        place = layers.preset_place(name)
    else:
        if require_env is not None:
            require_env(name)
        place = layers.defaults_place(name, variant)
        return place, layers.choose_variant(replace(place, name=name), variant)
    return place, layers.choose_variant(place, variant)


def validate(data: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> RunConfig:
    """A config from plain data; ConfigError has all problems, each with its source where one is given."""
    return _validated(data, sources or {})[0]


def override(config: RunConfig, overrides: Sequence[str], steps: int | None = None) -> RunConfig:
    """A config with `key=value` settings on top."""
    merged = layers.Merged(config.model_dump(mode="json"))
    merged.add(_given(overrides, steps=steps))
    return validate(merged.data, merged.sources)


def _validated(
    data: Mapping[str, Any], sources: Mapping[str, str], own_facts: EnvFacts | None = None, label: str | None = None
) -> tuple[RunConfig, EnvFacts | None]:
    try:
        config = RunConfig.model_validate(data)
    except ValidationError as error:
        lines, keys = explain_errors(error, RunConfig, data, sources, label)
        if keys:
            lines += _rules_of_the_rest(data, keys, sources)
        try:
            env, stop = EnvConfig.model_validate(data.get("env")), StopConfig.model_validate(data.get("stop", {}))
            section = data.get("eval")
            if not (isinstance(section, Mapping) and section.get("env")):
                lines += facts_problems(env, stop, own_facts or load_facts(env.id), sources)
        except ValidationError:
            pass  # their own problems are reported already
        raise ConfigError(lines) from None
    facts = own_facts or load_facts(config.env.id)
    last = config.in_stage(-1)
    problems = facts_problems(last.eval_env, last.stop, scored_facts(config, facts), sources)
    if problems := [*problems, *stage_problems(config, facts, sources), *unused_kwargs(config, sources)]:
        raise ConfigError(problems)
    return config, facts


def facts_problems(env: EnvConfig, stop: StopConfig, facts: EnvFacts | None, sources: Mapping[str, str]) -> list[str]:
    """Goals above the best possible mean return can never be reached: refused before a step is made."""
    goals = {f"stop.{key}": goal for key in ("threshold", "target") if (goal := getattr(stop, key)) is not None}
    floor = stop.lowest_return
    problems = [
        RuleProblem((key,), f"{goal:g} is not above stop.lowest_return={floor:g}. Lower stop.lowest_return.")
        for key, goal in goals.items()
        if floor is not None and goal <= floor
    ]
    if problems or facts is None or not goals:
        return [rule_line(problem, sources) for problem in problems]
    try:
        best = facts.best_return(env)
    except UserError:
        return []  # an env that cannot be made is reported when it is made
    found = [(key, best.problem(goal, env.id) if best else None) for key, goal in goals.items()]
    return [rule_line(RuleProblem((key,), problem), sources) for key, problem in found if problem]


def stage_problems(config: RunConfig, facts: EnvFacts | None, sources: Mapping[str, str]) -> list[str]:
    """A stage that waits for a score above the best possible one would never end."""
    lines = []
    for index, (name, stage) in enumerate(config.stages.items()):
        if stage.advance is None or stage.advance.score is None:
            continue
        env = config.in_stage(index).eval_env
        goal = StopConfig(threshold=stage.advance.score)
        known = facts if env.id == config.env.id else load_facts(env.id)
        problems = facts_problems(env, goal, known, {})
        key = f"stages.{name}.advance.score"
        lines += [line(source_of(sources, key), key, text.removeprefix("stop.threshold: ")) for text in problems]
    return lines


def unused_kwargs(config: RunConfig, sources: Mapping[str, str]) -> list[str]:
    """What the command line sets although every task, or every stage, has its own value for it."""
    parts = [task.env for task in config.tasks] or [stage.env for stage in config.stages.values()]
    kind = "task" if config.tasks else "stage"
    lines = []
    for key in [key for key, source in sources.items() if key.startswith("env.kwargs.") and source.startswith("--")]:
        leaf = key.split(".")[2]
        if parts and all(part.id is None and leaf in (part.kwargs or {}) for part in parts):
            text = f"every {kind} has its own {leaf}, so this changes nothing. Change `{kind}s` instead."
            lines.append(line(sources[key], key, text))
    return lines


def _rules_of_the_rest(data: Mapping[str, Any], bad_keys: Sequence[str], sources: Mapping[str, str]) -> list[str]:
    """Rules between keys that are each fine are checked too, so that nothing is left for a second try."""
    rest = copy.deepcopy(dict(data))
    for key in bad_keys:
        *parents, leaf = key.partition("[")[0].split(".")
        into: Any = rest
        for parent in parents:
            into = into.get(parent) if isinstance(into, dict) else None
        if isinstance(into, dict):
            into.pop(leaf, None)
    rest["env"] = {"id": "missing", **rest.get("env", {})}
    try:
        RunConfig.model_validate(rest)
    except ValidationError as error:
        found = [problem for item in error.errors() for problem in item.get("ctx", {}).get("problems", [])]
        return [rule_line(problem, sources) for problem in found if not set(problem.keys) & set(bad_keys)]
    return []


def facts_of(file: YamlFile) -> EnvFacts | None:
    data = file.data.get("facts")
    if data is None:
        return None
    try:
        return EnvFacts.model_validate(data)
    except ValidationError as error:
        lines, _ = explain_errors(error, EnvFacts, {}, {})
        advice = " Add it, or remove facts: your own file needs none."
        lines = [f"{text}{advice}" if text.endswith(": is missing.") else text for text in lines]
        raise ConfigError(f"{file.at(('facts',))}: facts: {problem}" for problem in lines) from None


def load_facts(env_id: str) -> EnvFacts | None:
    """What is known about an env, or None."""
    return facts_of(read_preset(env_id)) if is_preset(env_id) else None


def _with_floor(config: RunConfig, own: EnvFacts) -> RunConfig:
    """With the lowest return that the user's own file states, where it is that of the env of the scores."""
    env = config.in_stage(-1).eval_env
    if config.stop.lowest_return is not None or config.tasks or env.id != config.env.id or not own.hold_for(env):
        return config
    return config.model_copy(update={"stop": config.stop.model_copy(update={"lowest_return": own.lowest_return})})


def scored_facts(config: RunConfig, facts: EnvFacts | None) -> EnvFacts | None:
    """What is known about the env that agents are scored in, in the end; `facts`: about that of training."""
    scored = config.in_stage(-1).eval_env.id
    return facts if scored == config.env.id else load_facts(scored)


def lowest_return(env: EnvConfig, stated: float | None) -> float | None:
    """The lowest return that an episode of this env can have: as the config states it, or as it is known of the env."""
    if stated is not None:
        return stated
    facts = load_facts(env.id)
    return None if facts is None or not facts.hold_for(env) else facts.lowest_return


def list_presets() -> list[Preset]:
    presets = []
    for env_id in preset_ids():
        file = read_preset(env_id)
        facts = file.data["facts"]
        presets.append(Preset(env_id, layers.variant_names(file), facts["family"], facts["description"]))
    return presets


def check_file(path: str | Path, require_env: Callable[[str], object] | None = None) -> list[str]:
    """All problems of a file, in every variant of it; an empty list is a good file."""
    try:
        place = layers.user_place(Path(path))
        facts_of(place.file)
    except ConfigError as error:
        return error.problems
    problems: list[str] = []
    variants: list[str | None] = [*layers.variant_names(place.file)] or [None]
    for variant in variants:
        try:
            found = load(f"{path}:{variant}" if variant else str(path))
            env_id = found.config.env.id
            if require_env is not None and not is_preset(env_id):
                try:
                    require_env(env_id)
                except UserError as error:
                    raise ConfigError([line(found.source("env.id"), "env.id", str(error), env_id)]) from None
        except ConfigError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    return problems


def with_space_defaults(resolved: Resolved, values: Mapping[str, Any]) -> Resolved:
    """Fills in what depends on the spaces of an env without a preset, where the user set nothing."""
    if not resolved.generic:
        return resolved
    data, sources = resolved.config.model_dump(), dict(resolved.sources)
    for key, value in values.items():
        section, _, name = key.partition(".")
        if name in ("shared", "hidden") and data["agent"]["encoder"] != values["agent.encoder"]:
            continue  # they are meant for the network that reads pictures
        if name in data[section] and (source_of(sources, key) or f"presets/{ANY_ENV}").startswith(f"presets/{ANY_ENV}"):
            data[section][name] = value
            sources[key] = SPACES
    return replace(resolved, config=validate(data, sources), sources=sources)
