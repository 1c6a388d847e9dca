"""What a user did wrong, said in one line; the command prints it and leaves with exit code 2."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable

DISTRIBUTION = "gymnast-rl"  # what pip knows us by; command and import are `gymnast`


class UserError(Exception):
    """A mistake the user can fix. The message names the key, the value and the fix."""


class Lacking(UserError, AttributeError):
    """Something that another library's object has and ours has not: `hasattr` says no, and a line says why."""


class EnvFailure(Exception):
    """An environment crashed, hung or died. The message carries its traceback; the run ends, nothing waits for it."""


class Lost(UserError):
    """Where jobs run does not answer any more: none of them can be gone on with there."""

    def __init__(self, message: str, gone: bool = False) -> None:
        """`gone`: for good, with all that ran there; else perhaps only the way to it."""
        super().__init__(message)
        self.gone = gone


class Stopped(Exception):
    """Ctrl-C has ended a command that can go on later. The message says what is kept and how."""


def reason_of(error: Exception) -> str:
    """An exception that nobody has expected, in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def install_command(*extras: str) -> str:
    """The one command that adds optional packages."""
    return f'pip install "{DISTRIBUTION}[{",".join(extras)}]"'


def not_installed(*packages: str, extras: Iterable[str] = ()) -> str:
    """The one sentence for optional packages that are not there, with what adds them. It ends with the command, so that
    it can be copied with the line's end."""
    extras = list(extras)
    command = install_command(*extras) if extras else f"pip install {' '.join(packages)}"
    return f"{', '.join(packages)} {'is' if len(packages) == 1 else 'are'} not installed. Run: {command}"


def package_problem(package: str, extra: str | None) -> str | None:
    """That an optional package is not there; None: it is there."""
    if importlib.util.find_spec(package) is not None:
        return None
    return not_installed(package, extras=[extra] if extra else [])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x' or 'y'?" for the nearest known names, or an empty string."""
    names = list(known)
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[match] for match in difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=0.6)]
    return f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
