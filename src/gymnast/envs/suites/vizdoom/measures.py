"""What Doom counts: parts of a reward that `env.shaping` can weigh, and which actions can do something now.

Each part pays its change in a step: health 100 to 90 pays -10 times its weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gymnast.envs.suites.vizdoom.buttons import WEAPONS, parts_of

CELL = 64  # map units of a cell's side: twice as wide as the player
AMMO = ("AMMO2", "AMMO3", "AMMO5", "AMMO6")  # bullets, shells, rockets, cells; the other slots share these
OWNED = tuple(f"WEAPON{name[-1]}" for name in WEAPONS)
COUNTED = {  # parts that are the change of one game variable
    "health": ("HEALTH", "health points, gained or lost"),
    "armour": ("ARMOR", "armour points, gained or lost"),
    "kills": ("KILLCOUNT", "kills that the engine counts for the player, also of monsters that it did not hit"),
    "hits": ("HITCOUNT", "hits of the player's own shots"),
    "damage": ("DAMAGECOUNT", "damage done to monsters"),
    "damage_taken": ("DAMAGE_TAKEN", "damage taken; weigh it negatively"),
    "items": ("ITEMCOUNT", "items picked up"),
    "deaths": ("DEATHCOUNT", "deaths of the player; weigh it negatively"),
}
PARTS = {name: meaning for name, (_, meaning) in COUNTED.items()} | {
    "ammo": "rounds of ammunition of all kinds, found or fired",
    "shots": "rounds fired; weigh it negatively as a price of shooting",
    "progress": "map units farther away from the start than ever before in the episode",
    "cells": f"cells of {CELL} x {CELL} map units that are entered for the first time in the episode",
}
FRAGS = "FRAGCOUNT"
READ = [*(variable for variable, _ in COUNTED.values()), *AMMO, *OWNED, "POSITION_X", "POSITION_Y", "ANGLE", FRAGS]


class Measures:
    """`read`: the names of the numbers that it gets. `actions`: of a Discrete env; None: each button is a bit.

    Plain numbers instead of arrays: there are few of them, and all of this happens at every step.
    """

    def __init__(self, read: Sequence[str], buttons: Sequence[str], actions: Sequence[str] | None) -> None:
        self._counted = [(name, read.index(variable)) for name, (variable, _) in COUNTED.items()]
        self._ammo = [read.index(name) for name in AMMO]
        self._health = read.index("HEALTH")
        self._given = [self._health, read.index("ARMOR"), *self._ammo]  # what a player starts with
        self._x, self._y = read.index("POSITION_X"), read.index("POSITION_Y")
        self._fist = read.index("WEAPON1")
        owned = dict(zip(WEAPONS, (read.index(name) for name in OWNED), strict=True))
        self._weapons = [(name, owned[name]) for name in buttons if name in WEAPONS]
        self._wanted = [frozenset(parts_of(one)) for one in (buttons if actions is None else actions)]
        self._shoots = "ATTACK" in buttons
        self._everything = np.ones(len(self._wanted), np.bool_)
        self._before: list[float] = []
        self._start = 0.0, 0.0
        self._farthest = 0.0
        self._cells: set[tuple[float, float]] = set()

    def start(self, numbers: list[float]) -> None:
        self._before = numbers
        self._start = x, y = numbers[self._x], numbers[self._y]
        self._farthest = 0.0
        self._cells = {(x // CELL, y // CELL)}

    def step(self, now: list[float]) -> dict[str, float]:
        """What changed, by the name of the part."""
        before, self._before = self._before, now
        if before[self._health] <= 0 < now[self._health]:  # alive again, in a match: at another place, with new weapons
            before = [now[i] if i in self._given else number for i, number in enumerate(before)]
            self._start, self._farthest = (now[self._x], now[self._y]), 0.0
        parts = {name: now[i] - before[i] for name, i in self._counted}
        rounds = [now[i] - before[i] for i in self._ammo]
        x, y = now[self._x], now[self._y]
        away, known = math.dist((x, y), self._start), len(self._cells)
        self._cells.add((x // CELL, y // CELL))
        parts["ammo"] = sum(rounds)
        parts["shots"] = -sum(change for change in rounds if change < 0)
        parts["progress"] = max(0.0, away - self._farthest)
        parts["cells"] = float(len(self._cells) - known)
        self._farthest = max(self._farthest, away)
        return parts

    def mask(self, numbers: list[float]) -> NDArray[np.bool_]:
        """Actions whose buttons all do something: a weapon that is not owned cannot be chosen, and nobody shoots who
        has no ammunition and no bare hands. Where nothing else is left, everything is allowed."""
        idle = {name for name, owned in self._weapons if not numbers[owned]}
        if self._shoots and not numbers[self._fist] and not any(numbers[i] > 0 for i in self._ammo):
            idle.add("ATTACK")
        if not idle:
            return self._everything
        allowed = np.array([not (wanted & idle) for wanted in self._wanted])
        return allowed if allowed.any() else self._everything
