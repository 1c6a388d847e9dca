"""Actions as buttons held together: what can be pressed, what it is called, and the bits an emulator takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gymnast.core.errors import UserError, did_you_mean

NOOP = "NOOP"
OPPOSITE = (
    frozenset(("UP", "DOWN")),
    frozenset(("LEFT", "RIGHT")),
)  # a console's cross cannot be pressed on both sides


def check_combos(names: list[str]) -> list[str]:
    """Which buttons a console has is known once it runs; what can never be pressed is known now."""
    held = [_held(name) for name in names]
    for name, buttons in zip(names, held, strict=True):
        if any(pair <= buttons for pair in OPPOSITE):
            raise ValueError(f"{name!r} cannot be pressed: it has opposite directions.")
    if not names or len(set(held)) < len(names):
        raise ValueError("must list different actions, at least one, like [NOOP, RIGHT, RIGHT+A].")
    return names


def _held(name: str) -> frozenset[str]:
    return frozenset() if name == NOOP else frozenset(name.split("+"))


def combos_of(names: Sequence[str] | None, buttons: Sequence[str | None], groups: Sequence[Sequence[int]]) -> list[int]:
    """The bits of each action. `groups`: what the game has a use for, one bit mask of each group at a time."""
    if names is None:
        return [_joined(parts) for parts in itertools.product(*groups)]
    known = {button: 1 << bit for bit, button in enumerate(buttons) if button}
    for name in names:
        for button in _held(name):
            if button not in known:
                raise UserError(
                    f"env.kwargs: actions: {name!r}: this console has no button {button!r}."
                    f"{did_you_mean(button, known)} Known: {', '.join(known)}."
                )
    return [_joined([known[button] for button in _held(name)]) for name in names]


def _joined(parts: Sequence[int]) -> int:
    bits = 0
    for part in parts:
        bits |= part
    return bits


def label_of(bits: int, buttons: Sequence[str | None]) -> str:
    """RIGHT+A, directions first."""
    held = [button for bit, button in enumerate(buttons) if button and bits >> bit & 1]
    across = [button for button in held if any(button in pair for pair in OPPOSITE)]
    return "+".join([*across, *(button for button in held if button not in across)]) or NOOP
