"""What a user did wrong, said in one line; the command prints it and leaves with exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake the user can fix. The message names the key, the value and the fix."""


class EnvFailure(Exception):
    """An environment crashed, hung or died. The message carries its traceback; the run ends, nothing waits for it."""


class Stopped(Exception):
    """Ctrl-C has ended a command that can go on later. The message says what is kept and how."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x' or 'y'?" for the nearest known names, or an empty string."""
    names = list(known)
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[match] for match in difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=0.6)]
    return f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
