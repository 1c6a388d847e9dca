"""Spaces as the learner sees them: flat leaves, native dtypes, channels first. Decided once, here.

An observation is a dict of leaves: {"obs": ...} for a plain space, "a/b" for nested Dict and Tuple spaces.
float64 becomes float32, HWC images become CHW, Discrete starts at zero. Actions start at zero as well.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.envs.types import NewArray, Obs, ObsSpace

# torch has no arithmetic for these; the next wider type holds every value (a uint64 above 2**63 is not an observation)
_WIDENED = {"float64": "float32", "float16": "float32", "bool": "int8"}
_WIDENED |= {"uint16": "int32", "uint32": "int64", "uint64": "int64"}
_PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def is_channels_last(space: gym.Space[Any]) -> bool:
    """An image with its channels in the last axis: uint8, three axes, the last of size 1, 3 or 4 or the smallest."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) != 3:
        return False
    return space.shape[-1] in (1, 3, 4) or space.shape[-1] < min(space.shape[:2])


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of an observation."""

    name: str
    path: tuple[str | int, ...]  # where it is inside the raw observation
    source: gym.Space[Any]  # as the env declares it
    space: gym.Space[Any]  # as the learner gets it
    channels_last: bool
    start: Any  # lowest value of a Discrete or MultiDiscrete, subtracted; None: nothing to subtract

    @property
    def shape(self) -> tuple[int, ...]:
        return self.space.shape or ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.space.dtype)

    def pick(self, observation: Any) -> Any:
        for key in self.path:
            observation = observation[key]
        return observation

    def convert(self, value: Any) -> Any:
        """The value in the learner's layout; its dtype is cast when it is written. Leading batch axes are kept."""
        if self.channels_last:
            return np.moveaxis(np.asarray(value), -1, -3)
        if self.start is not None:
            return np.asarray(value) - self.start
        return value

    def restore(self, value: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `convert`: a new array in the env's layout and dtype."""
        if self.channels_last:
            value = np.moveaxis(value, -3, -1)
        if self.start is not None:
            value = value + self.start
        return np.array(value, dtype=self.source.dtype, order="C")


class ObsLayout:
    """Turns an env's observations into leaves and writes them into [N, ...] buffers."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self._space, self.leaves = space, _leaves(space, ())
        names = [leaf.name for leaf in self.leaves]
        if len(set(names)) < len(names):
            raise UserError(f"observation space: two entries have the same name among {', '.join(names)}.")
        self.obs_space: ObsSpace = {leaf.name: leaf.space for leaf in self.leaves}
        first = self.leaves[0]
        # a plain array that can be assigned to its row as it is: the common case, and the fast one
        self.plain = len(self.leaves) == 1 and not first.path and not first.channels_last and first.start is None

    def allocate(self, n: int, new: NewArray = np.zeros) -> Obs:
        return {leaf.name: new((n, *leaf.shape), leaf.dtype) for leaf in self.leaves}

    def write(self, buffers: Obs, row: int, observation: Any) -> None:
        for leaf in self.leaves:
            buffers[leaf.name][row] = leaf.convert(leaf.pick(observation))

    def to_batch(self, observation: Any) -> tuple[Obs, bool]:
        """Raw observation, of one env or of several with a leading axis, as leaves [N, ...]; and whether it was one."""
        first = self.leaves[0]
        single = np.ndim(first.pick(observation)) == len(first.source.shape or ())
        batch: Obs = {}
        for leaf in self.leaves:
            value = np.asarray(leaf.convert(leaf.pick(observation)))
            value = value[np.newaxis] if single else value
            if value.shape[1:] != leaf.shape:
                raise UserError(f"observation {leaf.name!r} has shape {value.shape[1:]}; the env's is {leaf.shape}.")
            batch[leaf.name] = np.ascontiguousarray(value, dtype=leaf.dtype)
        return batch, single

    def to_raw(self, batch: Obs) -> Any:
        """The way back: leaves [N, ...] as the env itself shows them, in new arrays with a leading axis."""
        leaves = iter(self.leaves)
        return each_leaf(self._space, lambda _: (leaf := next(leaves)).restore(batch[leaf.name]))

    def problem(self, observation: Any) -> str | None:
        """What is wrong with an observation by its declared space, or None. Bounds of a Box are not checked."""
        for leaf in self.leaves:
            try:
                value = np.asarray(leaf.pick(observation))
            except (KeyError, IndexError, TypeError):
                return f"observation has no entry {leaf.name!r}, which its space declares"
            if value.dtype == object:
                return f"observation {leaf.name!r} is {type(leaf.pick(observation)).__name__}, not an array"
            declared = leaf.source
            if value.shape != (declared.shape or ()):
                return f"observation {leaf.name!r} has shape {value.shape}, its space declares {declared.shape}"
            if value.dtype.kind == "f" and np.dtype(declared.dtype).kind != "f":
                return f"observation {leaf.name!r} has dtype {value.dtype}, its space declares {declared.dtype}"
            if isinstance(declared, spaces.Discrete | spaces.MultiDiscrete) and not declared.contains(
                value.astype(declared.dtype)[()]
            ):
                return f"observation {leaf.name!r} is {value}, outside {declared}"
        return None


def texts_of(space: gym.Space[Any]) -> list[str]:
    """Entries of a Dict that are text, which no encoder takes: Text, and spaces like MiniGrid's missions."""
    entries = space.spaces.items() if isinstance(space, spaces.Dict) else ()
    return [key for key, entry in entries if entry.dtype is not None and np.dtype(entry.dtype).kind == "U"]


def each_leaf(space: gym.Space[Any], act: Callable[..., Any], *observations: Any) -> Any:
    """act(leaf's space, its part of each observation) for every leaf, in dicts and tuples like the space's own."""
    if isinstance(space, spaces.Dict):
        parts = ((key, child, [one[key] for one in observations]) for key, child in space.spaces.items())
        return {key: each_leaf(child, act, *part) for key, child, part in parts}
    if isinstance(space, spaces.Tuple):
        of_each = zip(space.spaces, *observations, strict=True)
        return tuple(each_leaf(child, act, *part) for child, *part in of_each)
    return act(space, *observations)


def _leaves(space: gym.Space[Any], path: tuple[str | int, ...]) -> list[Leaf]:
    if isinstance(space, spaces.Dict):
        return [leaf for key, child in space.spaces.items() for leaf in _leaves(child, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [leaf for index, child in enumerate(space.spaces) for leaf in _leaves(child, (*path, index))]
    name = "/".join(str(part) for part in path) or "obs"
    if not isinstance(space, _PLAIN):
        drop = f"leave it out, --set 'env.wrappers=[{{observation_keys: {{drop: [{path[0]}]}}}}]', or " if path else ""
        raise UserError(
            f"observation space: {name!r} is a {type(space).__name__}, which no encoder takes; Box, Discrete, "
            f"MultiDiscrete, MultiBinary and Dict or Tuple of them are supported: {drop}change it by a wrapper of your "
            "own, module:Class in env.wrappers."
        )
    converted, start = (_box(space), 0) if isinstance(space, spaces.Box) else _from_zero(space)
    return [Leaf(name, path, space, converted, is_channels_last(space), start if np.any(start) else None)]


def _from_zero(space: gym.Space[Any]) -> tuple[gym.Space[Any], Any]:
    """A Discrete or MultiDiscrete whose lowest value is zero, and what that was; any other space as it is."""
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n)), int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=np.int64), space.start
    return space, 0


def _box(space: spaces.Box) -> spaces.Box:
    dtype = np.dtype(_WIDENED.get(np.dtype(space.dtype).name, space.dtype))
    with np.errstate(over="ignore"):  # a float64 bound beyond float32 is an infinite one
        low, high = space.low.astype(dtype), space.high.astype(dtype)
    if is_channels_last(space):
        low, high = np.moveaxis(low, -1, 0), np.moveaxis(high, -1, 0)
    return spaces.Box(low, high, dtype=dtype.type)


class ActionLayout:
    """Turns a batch of the learner's actions into what each env's step takes."""

    def __init__(self, space: gym.Space[Any]) -> None:
        if not isinstance(space, _PLAIN):
            raise UserError(
                f"action space: {type(space).__name__} is not supported; "
                "Box, Discrete, MultiDiscrete and MultiBinary are."
            )
        self.source = space
        learners, self.start = _from_zero(space)
        self.space = copy.deepcopy(learners)  # who samples actions from it takes no random numbers of an env's
        self.dtype: np.dtype[Any] = np.dtype(self.space.dtype)
        self.shape: tuple[int, ...] = space.shape or ()
        self._is_discrete = isinstance(space, spaces.Discrete)
        self._shifted = bool(np.any(self.start))

    def batch(self, actions: NDArray[Any], n: int) -> NDArray[Any]:
        """A fresh copy [N, ...] in the env's dtype: an env may keep its row without seeing it change later."""
        actions = np.array(actions, dtype=self.dtype)
        shape = (n, *self.shape)
        if actions.shape != shape:
            if actions.size != math.prod(shape):
                raise ValueError(f"actions of shape {actions.shape} for {n} envs that take {self.space}")
            actions = actions.reshape(shape)
        return actions

    def rows(self, batch: NDArray[Any]) -> Sequence[Any]:
        """What each env's step is called with. Plain ints where discrete: envs check those several times faster."""
        if self._shifted:
            batch = batch + self.start
        return batch.tolist() if self._is_discrete else batch  # type: ignore[return-value]


def mask_size(space: gym.Space[Any]) -> int:
    """Entries of a mask: a Discrete's actions, those of each part of a MultiDiscrete in turn, a MultiBinary's bits."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary):
        return math.prod(space.shape)
    raise UserError(
        f"env.action_masks: true needs Discrete, MultiDiscrete or MultiBinary actions; this env has {space}."
    )


def mask_parts(space: gym.Space[Any]) -> NDArray[np.intp]:
    """Where the parts of a mask begin in each of which something must be allowed; bits can all be 0."""
    if isinstance(space, spaces.MultiDiscrete):
        return np.cumsum([0, *space.nvec.ravel()[:-1]], dtype=np.intp)
    return np.array([0] if isinstance(space, spaces.Discrete) else [], np.intp)


def scalars(info: Mapping[str, Any]) -> dict[str, Any]:
    """The plain numbers, flags and words of an info dict: what an episode record keeps."""
    kept: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool | int | float | str):
            kept[key] = value
    return kept


def looks_alike(a: ObsSpace, b: ObsSpace) -> bool:
    """Whether an agent made for one reads the other in the same way: the bounds of floats do not matter to it."""

    def alike(ours: gym.Space[Any], theirs: gym.Space[Any]) -> bool:
        boxes = isinstance(ours, gym.spaces.Box) and isinstance(theirs, gym.spaces.Box)
        floats = boxes and np.issubdtype(ours.dtype, np.floating)
        return ours == theirs or (floats and (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype))

    return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
