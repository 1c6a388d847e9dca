"""Wrappers by name, or anybody's by "module:Class". `problems` checks the parameters before any env exists."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Union

import gymnasium as gym

from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.registry import WRAPPERS
from gymnast.envs.suites import import_users_module, raised

TRAINING_ONLY = "training_only"  # of ours a parameter where it makes sense; of others for us alone


def find_wrapper(name: str) -> Any:
    """The class of a name in env.wrappers."""
    if ":" not in name:
        return WRAPPERS.get(name)
    module, _, attribute = name.partition(":")
    wrapper = getattr(import_users_module(module, f"wrapper {name!r}"), attribute, None)
    if not (isinstance(wrapper, type) and issubclass(wrapper, gym.Wrapper)):
        raise UserError(f"wrapper {name!r}: {module} has no class {attribute!r} derived from gymnasium.Wrapper.")
    return wrapper


def wrap(env: gym.Env[Any, Any], name: str, kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    wrapper = find_wrapper(name)
    if ":" not in name:
        return wrapper(env, **kwargs)
    try:
        return wrapper(env, **{key: value for key, value in kwargs.items() if key != TRAINING_ONLY})
    except Exception as error:  # foreign code
        raise UserError(f"env.wrappers: {name} cannot wrap this env: {raised(error)}.") from error


def keeps_masks(name: str) -> bool:
    """Whether the chosen action is the one that reaches the env."""
    wrapper = find_wrapper(name)
    return getattr(wrapper, "keeps_masks", issubclass(wrapper, gym.ObservationWrapper | gym.RewardWrapper))


def keeps_numbers(name: str) -> bool:
    """Whether an observation still ends with the env's own numbers."""
    return getattr(find_wrapper(name), "keeps_numbers", False)


def problems(name: str, kwargs: Mapping[str, Any]) -> list[str]:
    """Everything wrong with one entry of env.wrappers, a line each: unknown name, parameters, types, ranges."""
    if ":" not in name and (unknown := WRAPPERS.problem(name)):
        return [f"{unknown} Any other: module:Class."]
    try:
        wrapper = find_wrapper(name)
    except UserError as error:
        return [str(error)]
    if ":" in name:
        try:
            inspect.signature(wrapper).bind(None, **{key: kwargs[key] for key in kwargs if key != TRAINING_ONLY})
        except TypeError as error:
            return [f"wrapper {name!r}: {error}. It takes {inspect.signature(wrapper)}."]
        return []
    parameters = dict(list(inspect.signature(wrapper.__init__).parameters.items())[2:])  # without self and env
    hints = typing.get_type_hints(wrapper.__init__, include_extras=True)
    known = f"Known: {', '.join(parameters)}." if parameters else "It takes no parameters."
    found = [
        f"wrapper {name!r} has no parameter {key!r} (value {value!r}).{did_you_mean(key, parameters)} {known}"
        for key, value in kwargs.items()
        if key not in parameters
    ]
    for key, parameter in parameters.items():
        if key not in kwargs:
            if parameter.default is inspect.Parameter.empty:
                found.append(f"wrapper {name!r} needs the parameter {key!r}. {known}")
        elif wrong := _wrong_value(hints[key], kwargs[key]):
            found.append(f"wrapper {name!r}: {key} is {kwargs[key]!r} and must be {wrong}. {known}")
    rule = getattr(wrapper, "rule", None)  # what holds between parameters
    if not found and rule is not None and (broken := rule(kwargs)):
        found.append(f"wrapper {name!r}: {broken}")
    return found


def _wrong_value(hint: Any, value: Any) -> str | None:
    """What the value should have been, or None if it is fine."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    expected = []
    for option in options:
        between = None
        if typing.get_origin(option) is Annotated:
            option, between = typing.get_args(option)
        plain = typing.get_origin(option) or option
        accepted = (int, float) if plain is float else plain
        right_type = isinstance(value, accepted) and (plain is bool or not isinstance(value, bool))
        if right_type and (between is None or between.holds(value)):
            return None
        if plain is not types.NoneType:
            expected.append(f"{_NAMES.get(plain, plain.__name__)}{f' {between}' if between else ''}")
    return " or ".join(expected)


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
