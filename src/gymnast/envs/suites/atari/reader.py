"""Numbers for an agent from a game's RAM, as its table says: where objects are and how they move."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.envs.suites.atari.table import Bits, RamTable, Range, ScreenObject
from gymnast.envs.types import Box

Floats = NDArray[np.float32]


class _Ranges:
    """Several cells at once."""

    def __init__(self, ranges: list[Range]) -> None:
        self.cells = np.array([one.cell for one in ranges], np.intp)
        self._scales, self._offsets, self.low, self.high = (
            np.array([getattr(one, key) for one in ranges], np.float32) for key in ("scale", "offset", "low", "high")
        )

    def values(self, ram: NDArray[np.uint8]) -> Floats:
        return ram[self.cells] * self._scales + self._offsets

    def scaled(self, values: Floats) -> Floats:
        return (values - self.low) / (self.high - self.low) * 2 - 1


class _Distances:
    """All distances between middles of objects at once: [numbers] = [numbers, places] x [places] + constants."""

    def __init__(self, table: RamTable) -> None:
        names = list(table.objects)
        columns = [(name, axis) for name, thing in table.objects.items() for axis in thing.ranges]
        rows = [(one, axis) for one in table.distances for axis in ("x", "y")]
        self.names = [f"{one.of} from {one.to} {axis}" for one, axis in rows]
        self._factors = np.zeros((len(rows), len(columns)), np.float32)
        self._constants, self._within = np.zeros((2, len(rows)), np.float32)
        self._pairs = np.array([[names.index(one.of), names.index(one.to)] for one, _ in rows], np.intp).reshape(-1, 2)
        for row, (one, axis) in enumerate(rows):
            self._within[row] = one.within
            for name, sign in ((one.of, 1), (one.to, -1)):
                self._constants[row] += sign * _middle(table.objects[name], axis)
                if (name, axis) in columns:
                    self._factors[row, columns.index((name, axis))] += sign

    def read(self, places: Floats, seen: NDArray[np.bool_]) -> Floats:
        found: Floats = ((self._factors @ places + self._constants) / self._within).clip(-1, 1)
        return np.where(seen[self._pairs].all(axis=1), found, 0)


def _middle(thing: ScreenObject, axis: str) -> float:
    """Of an object, from where it moves along this axis: from its edge, else from the edge of the screen."""
    half = thing.size[axis == "y"] / 2
    fixed = getattr(thing, axis)
    return half if isinstance(fixed, Range) else fixed + half


class TableReader:
    """Reads one game, step by step: a velocity is the difference to the step before.

    The agent sees of each object its coordinates, its velocities and 1 or 0 for visible or not; then distances, numbers
    and bits; then which action was the last. What is not visible has position, velocity and distances 0.
    """

    def __init__(self, table: RamTable, actions: list[str]) -> None:
        self._table = table
        objects = table.objects.values()
        self._places = _Ranges([one for thing in objects for one in thing.ranges.values()])
        owners = [index for index, thing in enumerate(objects) for _ in thing.ranges]
        self._owners = np.array(owners, np.intp)
        self._firsts = np.searchsorted(self._owners, np.arange(len(objects)))
        self._distances = _Distances(table)
        self._numbers = _Ranges(list(table.numbers.values()))
        parts = [part for parts in table.bits.values() for part in parts]
        pairs = [(cell, bit) for part in parts for cell in range(part.cells[0], part.cells[1] + 1) for bit in part.bits]
        self._bit_cells = np.array([cell for cell, _ in pairs], np.intp)
        self._bits = np.array([bit for _, bit in pairs], np.uint8)
        self._lay_out(actions)
        self._before: Floats = np.zeros(len(owners), np.float32)
        self._seen_before = np.zeros(len(owners), np.bool_)

    def _lay_out(self, actions: list[str]) -> None:
        """Where each number is in an observation, and what it is called."""
        names: list[str] = []
        at: dict[str, list[int]] = {"place": [], "velocity": [], "visible": []}
        speeds: list[float] = []
        for name, thing in self._table.objects.items():
            at["place"] += range(len(names), len(names) + len(thing.ranges))
            names += [f"{name} {axis}" for axis in thing.ranges]
            if thing.speed is not None:
                at["velocity"] += range(len(names), len(names) + len(thing.ranges))
                names += [f"{name} velocity {axis}" for axis in thing.ranges]
                speeds += [thing.speed] * len(thing.ranges)
            at["visible"].append(len(names))
            names.append(f"{name} visible")
        moving = [thing.speed is not None for thing in self._table.objects.values() for _ in thing.ranges]
        self._moving, self._speeds = np.flatnonzero(moving), np.array(speeds, np.float32)
        self._place_at, self._velocity_at, self._visible_at = (np.array(one, np.intp) for one in at.values())
        self._distances_at = len(names)
        names += self._distances.names
        self._rest = len(names)
        names += self._table.numbers
        names += [f"{key} {i}" for key, parts in self._table.bits.items() for i in range(sum(map(_size, parts)))]
        self._actions_at = len(names)
        self.names = [*names, *(f"last {action}" for action in actions)]
        low, high = np.full(len(self.names), -1, np.float32), np.ones(len(self.names), np.float32)
        low[self._visible_at] = 0
        low[self._rest + len(self._table.numbers) :] = 0
        low[self._velocity_at], high[self._velocity_at] = -np.inf, np.inf
        self.space = spaces.Box(low, high)

    def start(self, ram: NDArray[np.uint8]) -> Floats:
        """The first observation of an episode: nothing moved, there was no action."""
        self._seen_before.fill(False)
        return self.read(ram, None)

    def read(self, ram: NDArray[np.uint8], action: int | None) -> Floats:
        """The next observation, after an action; None: after none of the agent's."""
        obs = np.zeros(len(self.names), np.float32)
        places = self._places.values(ram)
        seen = self._visible(places)
        shown = seen[self._owners]
        obs[self._place_at] = np.where(shown, self._places.scaled(places), 0)
        moved = np.where(shown & self._seen_before, places - self._before, 0)
        obs[self._velocity_at] = moved[self._moving] / self._speeds
        obs[self._visible_at] = seen
        if self._distances.names:
            obs[self._distances_at : self._rest] = self._distances.read(places, seen)
        self._before, self._seen_before = places, shown
        after_numbers = self._rest + len(self._numbers.cells)
        obs[self._rest : after_numbers] = self._numbers.scaled(self._numbers.values(ram)).clip(-1, 1)
        obs[after_numbers : self._actions_at] = ram[self._bit_cells] >> self._bits & 1
        if action is not None:
            obs[self._actions_at + action] = 1
        return obs

    def _visible(self, places: Floats) -> NDArray[np.bool_]:
        if not len(places):
            return np.zeros(0, np.bool_)
        inside = (places >= self._places.low) & (places <= self._places.high)
        return np.logical_and.reduceat(inside, self._firsts)

    def boxes(self, ram: NDArray[np.uint8]) -> list[Box]:
        """The objects that are visible now, where they are drawn."""
        found = []
        visible = self._visible(self._places.values(ram)).tolist()
        for (name, thing), seen in zip(self._table.objects.items(), visible, strict=True):
            if seen:
                found.append(Box(name, _pixel(thing.x, ram), _pixel(thing.y, ram), *thing.size))
        return found


def _pixel(at: Range | int, ram: NDArray[np.uint8]) -> int:
    return round(int(ram[at.cell]) * at.scale + at.offset) if isinstance(at, Range) else at


def _size(part: Bits) -> int:
    return (part.cells[1] - part.cells[0] + 1) * len(part.bits)
