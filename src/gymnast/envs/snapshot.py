"""A copy of an env in the middle of an episode, with every wrapper, to which it can be put back again and again.

Each suite says how to copy its games, or that it cannot (`Suite.save_game`). Here is what is around a game: the numbers
of the wrappers, of frame stacks, of the recorder, of random generators. Objects stay who they are and get their numbers
back, so that whoever holds one of them holds the right one afterwards. Windows and fonts to draw with are no state.
"""

from __future__ import annotations

import copy
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from gymnast.envs.suites.base import Suite

KNOWN = ("gymnast.", "gymnasium.")  # packages whose wrappers keep their state in plain attributes
CONSTANT = {"P", "initial_state_distrib"}  # tables that are the same all the time, and large
_ATOMS = (type(None), bool, int, float, complex, str, bytes, np.generic, Enum)
_GENERATORS = (np.random.Generator, np.random.RandomState)
_LIST_ITERATOR: type = type(iter([]))
Numbers = list[tuple[Any, dict[str, Any]]]  # objects, and the attributes of each that are numbers


class Snapshot(NamedTuple):
    game: Any  # whatever the suite keeps
    around: Numbers


def take(env: gym.Env[Any, Any], suite: Suite) -> Snapshot | None:
    """None: this env has no copies, and is brought to a moment by its seed and its actions."""
    layers = []
    layer = env
    while isinstance(layer, gym.Wrapper):
        if not type(layer).__module__.startswith(KNOWN):
            return None  # a wrapper of somebody else may keep anything anywhere
        layers.append(layer)
        layer = layer.env
    game = suite.save_game(layer)
    return None if game is None else Snapshot(game, save_numbers(*layers))


def put_back(env: gym.Env[Any, Any], suite: Suite, snapshot: Snapshot) -> None:
    suite.load_game(env.unwrapped, snapshot.game)
    load_numbers(snapshot.around)


def save_numbers(*owners: Any) -> Numbers:
    """Of these objects, and of those of ours that they own."""
    found: Numbers = []
    waiting, seen = list(owners), {id(owner) for owner in owners}
    while waiting:
        owner = waiting.pop()
        kept = {}
        for name, value in vars(owner).items():
            if name in CONSTANT:
                continue
            if is_data(value):
                kept[name] = _copied(value)
            elif not isinstance(value, gym.Env | gym.Space | type) and _is_ours(value) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)
        found.append((owner, kept))
    return found


def load_numbers(numbers: Numbers) -> None:
    for owner, kept in numbers:
        own: dict[str, Any] = owner.__dict__
        own.update({name: _copied(value) for name, value in kept.items() if name not in own or is_data(own[name])})


def is_data(value: Any) -> bool:
    """Whether a value is state that can be copied; anything else (functions, windows, models) stays as it is."""
    if isinstance(value, dict):
        return all(map(is_data, value.values()))
    if isinstance(value, list | tuple | set | deque):
        return all(map(is_data, value))
    return isinstance(value, (*_ATOMS, np.ndarray, *_GENERATORS, _LIST_ITERATOR))


def _is_ours(value: Any) -> bool:
    return type(value).__module__.startswith("gymnast.") and hasattr(value, "__dict__")


def _copied(value: Any) -> Any:
    return value if isinstance(value, _ATOMS) else copy.deepcopy(value)
