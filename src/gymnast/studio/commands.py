"""Reading what a page sends: every mistake is one line that names the key and the value."""

from __future__ import annotations

from typing import Any

from gymnast.core.errors import UserError


def whole(command: dict[str, Any], key: str, default: int, low: int, high: int) -> int:
    """A whole number of a command, within bounds."""
    value = command.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UserError(f"{key} is {value!r} and must be a whole number from {low} to {high}.")
    return value


def text(command: dict[str, Any], key: str) -> str | None:
    """A text of a command; None: it is not there."""
    value = command.get(key)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{key} is {value!r} and must be a text.")
    return value


def flag(command: dict[str, Any], key: str) -> bool:
    value = command.get(key)
    if not isinstance(value, bool):
        raise UserError(f"{key} is {value!r} and must be true or false.")
    return value
