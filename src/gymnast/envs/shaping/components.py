"""Extra reward signals that `env.shaping` can weigh, by env and name. NumPy alone: configs and `envs show` ask too.

A potential pays gamma * of(next state) - of(state). Over an episode that telescopes, so the policy that is best with it
is the one that is best without (Ng, Harada and Russell, 1999). A signal pays what it likes and may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import did_you_mean
from gymnast.core.registry import SHAPERS

State = NDArray[np.float64]  # [N, width]: the env's own observations, the newest where they are stacked
Values = NDArray[np.float64]  # [N]
TRUE_REWARD = "env"  # the component that is the env's own reward


@dataclass(frozen=True)
class Potential:
    """After a terminal step the potential is 0, whatever `of` says; after a time limit it is that of the last state."""

    meaning: str
    of: Callable[[State], Values]


@dataclass(frozen=True)
class Signal:
    """Pays of(state, action, next state)."""

    meaning: str
    of: Callable[[State, NDArray[Any], State], Values]


@dataclass(frozen=True)
class Shaper:
    """The components an env offers."""

    width: int  # numbers in one of the env's observations
    components: Mapping[str, Potential | Signal]


def find_shaper(env_id: str) -> Shaper | None:
    """The components of an env, or None. A module of the user's ("module:Env-v0") may register its own."""
    module, _, name = env_id.rpartition(":")
    if module:
        from gymnast.envs.suites import find_spec

        find_spec(env_id)  # imports the module
    if name not in SHAPERS.names():
        return None
    shaper: Shaper = SHAPERS.get(name)
    return shaper


def named_parts(env_id: str, kwargs: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Everything that env.shaping can weigh: kind and meaning, by name."""
    from gymnast.envs.suites import suite_of

    shaper = find_shaper(env_id)
    parts = {} if shaper is None else shaper.components
    own = suite_of(env_id).shaping_parts(env_id, kwargs)
    return {name: (type(part).__name__.lower(), part.meaning) for name, part in parts.items()} | {
        name: ("signal", meaning) for name, meaning in own.items()
    }


def shaping_problems(env_id: str, kwargs: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Everything wrong with the names in env.shaping, a line each."""
    known = named_parts(env_id, kwargs)
    if not known:
        return [f"{env_id} names no extra rewards. Envs that do: {', '.join(SHAPERS.names())}."]
    return [
        f"{env_id} has no component {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
        for name in names
        if name not in known
    ]


def _centring(state: State) -> Values:
    # From 1 in the middle to 0 at the edge. Never negative: an episode ends by failing, and must not gain by it.
    return 1.0 - np.abs(state[:, 0]) / 2.4


def _energy(state: State) -> Values:
    # The slope pulls with 0.0025 cos(3x), so height counts 0.0025/3 sin(3x) beside v^2/2; the goal is at x = 0.5.
    # Never positive: an episode ends by arriving, and must not lose by it.
    height = 0.0025 / 3.0
    missing = height * np.sin(1.5) - (height * np.sin(3.0 * state[:, 0]) + state[:, 1] ** 2 / 2.0)
    return -np.maximum(missing, 0.0) / (height * (np.sin(1.5) + 1.0))


def _descent(state: State) -> Values:
    # y is about 1.4 at the start and 0 on the pad, and may leave that range
    return 1.0 - np.clip(state[:, 1] / 1.4, 0.0, 1.0)


def _time(state: State, action: NDArray[Any], following: State) -> Values:
    return np.full(len(state), -1.0)


CARTPOLE = Shaper(4, {"centring": Potential("the cart near the middle: 1 there, 0 at the edge", _centring)})
MOUNTAIN_CAR = Shaper(
    2, {"energy": Potential("height and speed: -1 at rest in the valley, 0 enough to arrive", _energy)}
)
LUNAR_LANDER = Shaper(
    8,
    {
        "time": Signal("-1 for every step: hovering does not pay", _time),
        "descent": Potential("the lander low: 0 at the start's height, 1 on the ground", _descent),
    },
)
