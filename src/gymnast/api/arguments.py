"""Mistakes in calls of the Python API: exceptions that Python programs expect, in the words of keywords."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import gymnasium as gym

from gymnast.core.errors import UserError
from gymnast.core.trust import Untrusted
from gymnast.envs.suites import UnknownEnv

P = ParamSpec("P")
R = TypeVar("R")

# "--set algo.batch_size=64", which the command takes; not a complete command in backticks
SETTING = re.compile(r"(`[^`]*`)|--set (?:'([\w.]+)=([^']*)'|([\w.]+)=(\S*[^\s.,:;]))")
KEYWORD_SECTIONS = ("algo", "agent")  # their settings are keywords by their own names


class WrongArgument(UserError, ValueError):
    """An argument that a model or a function of the API does not take."""


class NoSuchEnv(WrongArgument, gym.error.NameNotFound):
    """An env's id that is not registered: scripts catch what gymnasium.make raises."""


class NoSuchVersion(WrongArgument, gym.error.VersionNotFound, gym.error.DeprecatedEnv):
    """An id of which other versions are registered."""


class WrongKeyword(UserError, TypeError):
    """A keyword that is not known, or makes no sense next to the others."""


def argument_errors(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the API, whose mistakes are ValueErrors in addition, and name keywords instead of options."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UnknownEnv as error:
            kind = NoSuchVersion if error.versions else NoSuchEnv
            raise kind(in_python(str(error))) from None
        except Untrusted:  # says what to do in Python, too
            raise
        except UserError as error:
            said = in_python(str(error))
            builtin = isinstance(error, ValueError | TypeError | AttributeError | LookupError)
            if said == str(error) and builtin:
                raise
            raise WrongArgument(said) from error.__cause__

    return called


def in_python(text: str) -> str:
    """What to pass instead, as it is written in Python."""

    def spoken(found: re.Match[str]) -> str:
        command, *settings = found.groups()
        if command is not None:
            return command
        key, value = filter(None, settings)
        section, _, name = key.partition(".")
        return f"{name}={value}" if section in KEYWORD_SECTIONS and "." not in name else f"set={{{key!r}: {value}}}"

    return SETTING.sub(spoken, text)
