"""Doom's buttons, and the actions that are made of them. Imports no engine.

An action of several buttons is written as "TURN_LEFT+ATTACK". Two buttons that exclude each other are never together in
one action.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from gymnast.core.errors import UserError, did_you_mean

NOOP = "NOOP"
MOST = 512  # actions, each of which is an output of the agent
WEAPONS = tuple(f"SELECT_WEAPON{slot}" for slot in (*range(1, 10), 0))
BUTTONS = (
    *("ATTACK", "USE", "JUMP", "CROUCH", "TURN180", "ALTATTACK", "RELOAD", "ZOOM", "SPEED", "STRAFE"),
    *("MOVE_RIGHT", "MOVE_LEFT", "MOVE_BACKWARD", "MOVE_FORWARD", "TURN_RIGHT", "TURN_LEFT", "LOOK_UP", "LOOK_DOWN"),
    *("MOVE_UP", "MOVE_DOWN", "LAND", *WEAPONS, "SELECT_NEXT_WEAPON", "SELECT_PREV_WEAPON", "DROP_SELECTED_WEAPON"),
    *("ACTIVATE_SELECTED_ITEM", "SELECT_NEXT_ITEM", "SELECT_PREV_ITEM", "DROP_SELECTED_ITEM"),
)
EXCLUSIVE: tuple[frozenset[str], ...] = (  # of each group one button at a time
    frozenset({"MOVE_LEFT", "MOVE_RIGHT"}),
    frozenset({"TURN_LEFT", "TURN_RIGHT", "TURN180"}),
    frozenset({"MOVE_FORWARD", "MOVE_BACKWARD"}),
    frozenset({"MOVE_UP", "MOVE_DOWN", "LAND"}),
    frozenset({"LOOK_UP", "LOOK_DOWN"}),
    frozenset({"JUMP", "CROUCH"}),
    frozenset({*WEAPONS, "SELECT_NEXT_WEAPON", "SELECT_PREV_WEAPON"}),
    frozenset({"SELECT_NEXT_ITEM", "SELECT_PREV_ITEM"}),
)


def clash(pressed: Sequence[str]) -> list[str]:
    """Those of some buttons that exclude each other, as they are given; none: all can be pressed together."""
    for group in EXCLUSIVE:
        if len(both := [name for name in pressed if name in group]) > 1:
            return both
    return []


def parts_of(action: str) -> list[str]:
    """The buttons of an action's name."""
    return [] if action.upper() == NOOP else [name.strip().upper() for name in action.split("+")]


def problem(action: str) -> str | None:
    """What is wrong with the name of an action, or None."""
    parts = parts_of(action)
    for name in parts:
        if name not in BUTTONS:
            return f"there is no button {name!r}.{did_you_mean(name, (*BUTTONS, NOOP))} Known: {', '.join(BUTTONS)}."
    if len(set(parts)) < len(parts):
        return f"{action} has a button twice."
    if both := clash(parts):
        return f"{action}: {' and '.join(both)} exclude each other."
    return None


def combinations(buttons: Sequence[str], most: int) -> list[str]:
    """Every action of at most so many buttons that can be pressed together, no button at all among them.

    In the order of the package's own wrapper, so that with one button at a time action i is the same in both.
    """
    found = []
    for count in range(min(most, len(buttons)) + 1):
        for pressed in itertools.combinations(buttons, count):
            if not clash(pressed):
                found.append(pressed)
            if len(found) > MOST:
                raise UserError(
                    f"env.kwargs: max_buttons = {most}: {len(buttons)} buttons make more than {MOST} actions. "
                    "Use fewer buttons (buttons), or list the actions (actions)."
                )
    found.sort(key=lambda pressed: [name in pressed for name in buttons])
    return ["+".join(pressed) or NOOP for pressed in found]


def presses(action: str, buttons: Sequence[str]) -> list[float]:
    """What the engine takes: 1 for each of its buttons that is held."""
    parts: Any = set(parts_of(action))
    return [float(name in parts) for name in buttons]
