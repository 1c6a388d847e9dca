"""Spaces as JSON, so that a saved agent knows what it sees and does without its env."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.core.errors import DISTRIBUTION, UserError


def space_to_json(space: gym.Space[Any]) -> dict[str, Any]:
    """A description that `space_from_json` turns into an equal space."""
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": {str(key): space_to_json(child) for key, child in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_json(child) for child in space.spaces]}
    if isinstance(space, spaces.Box):
        bounds = {"low": _short(space.low), "high": _short(space.high)}
        return {"kind": "Box", "shape": list(space.shape), "dtype": np.dtype(space.dtype).name, **bounds}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        numbers = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"kind": "MultiDiscrete", "dtype": np.dtype(space.dtype).name, **numbers}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "shape": list(space.shape)}
    raise UserError(f"{type(space).__name__} spaces are not supported.")


def space_from_json(form: dict[str, Any]) -> gym.Space[Any]:
    kind = form["kind"]
    if kind == "Dict":
        # in the order they were in: gymnasium sorts a plain dict, and an agent's inputs follow the order
        return spaces.Dict([(key, space_from_json(child)) for key, child in form["spaces"].items()])
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(child) for child in form["spaces"]])
    if kind == "Box":
        shape, dtype = tuple(form["shape"]), np.dtype(form["dtype"])
        low, high = (np.broadcast_to(np.array(form[bound], dtype), shape) for bound in ("low", "high"))
        return spaces.Box(low, high, dtype=dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(form["n"], start=form["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(form["nvec"], dtype=np.dtype(form["dtype"]).type, start=form["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(form["shape"][0] if len(form["shape"]) == 1 else form["shape"])
    raise UserError(f"a space of kind {kind!r} is of a newer Gymnast: upgrade with `pip install -U {DISTRIBUTION}`.")


def _short(bound: NDArray[Any]) -> Any:
    """One number where all are the same: an image has thousands of equal bounds."""
    return bound.flat[0].item() if bound.size and (bound == bound.flat[0]).all() else bound.tolist()
