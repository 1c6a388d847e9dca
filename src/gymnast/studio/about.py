"""What a page must know of a session before it shows anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from gymnast import config as configs
from gymnast.core.observations import is_board, is_picture
from gymnast.play.analysis import why_value_differs
from gymnast.play.keys import shown_name

if TYPE_CHECKING:
    from gymnast.studio.desk import Desk


def about_session(desk: Desk) -> dict[str, Any]:
    opened, game, keys = desk.opened, desk.game, desk.keys
    config, facts = opened.config, configs.load_facts(game.config.id)
    agent = opened.untrained.agent
    return {
        "env": game.config.id,
        "family": facts.family if facts else None,
        "description": facts.description if facts else None,
        "ref": None if opened.run is None else opened.run.id,
        "checkpoint": opened.checkpoint,
        "checkpoints": opened.checkpoints,
        "actions": desk.labels.actions,
        "action_kind": keys.kind,
        "sizes": None if desk.labels.sizes is None else list(desk.labels.sizes),
        "bounds": None if desk.labels.bounds is None else [list(pair) for pair in desk.labels.bounds],
        "keys": keys.by_code,
        "key_rows": [row | {"label": shown_name(row["label"], game.turned)} for row in keys.rows],
        "waits": keys.idle is None,  # for a key: there is no action that does nothing
        "obs": [_leaf(key, space, desk.labels.observations.get(key, [])) for key, space in _leaves(desk).items()],
        "against": opened.against,
        "two_players": game.second_player is not None,
        "masks": game.config.action_masks,
        "fps": game.fps,
        "picture": game.why_no_picture is None,
        "why_no_picture": game.why_no_picture,
        "encoder": config.agent.encoder,
        "memory": config.agent.memory,
        "gamma": config.algo.gamma,
        "gae_lambda": getattr(config.algo, "gae_lambda", 1.0),
        "components": _components(desk),
        "variables": list(game.variables),
        "tabular": desk.inspection.table is not None,
        "branching": "snapshot" if game.has_copies else "replay",
        "policies": ["greedy", "sampled", "random", "untrained", "human"][0 if opened.checkpoint else 2 :],
        "has_memory": agent.has_memory,
        "tracks": agent.tracker is not None,  # which pixels belong to an object is a choice, and that has no slope
        "comparable": bool(opened.checkpoint) and why_value_differs(config, game) is None,  # if it is sampled
    }


def _components(desk: Desk) -> list[str]:
    """Named parts of the reward, as far as the env has said any."""
    return sorted(desk.game.recorder.components)


def _leaves(desk: Desk) -> dict[str, gym.Space[Any]]:
    return dict(desk.game.vec.obs_space)


def _leaf(key: str, space: gym.Space[Any], names: list[str]) -> dict[str, Any]:
    shape = list(space.shape or ())
    found: dict[str, Any] = {"key": key, "names": names, "shape": shape, "low": None, "high": None}
    if is_picture(space) or is_board(space):
        return found | {"kind": "picture", "board": bool(is_board(space))}
    if isinstance(space, gym.spaces.Discrete):
        return found | {"kind": "number", "low": [0], "high": [int(space.n) - 1]}
    if isinstance(space, gym.spaces.Box) and math.prod(shape) <= 64:
        found |= {"low": _bounds(space.low), "high": _bounds(space.high)}
    return found | {"kind": "vector"}


def _bounds(array: Any) -> list[float | None]:
    return [float(value) if np.isfinite(value) and abs(value) < 1e30 else None for value in np.ravel(array)]
