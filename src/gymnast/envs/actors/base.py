"""What a pool of actors needs of the place where they run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import gymnasium as gym

from gymnast.envs.engines.buffers import Buffers


class ActorDied(Exception):
    """An actor is gone, with what it was doing."""

    def __init__(self, by_its_place: bool = False) -> None:
        """`by_its_place`: it was sent to a machine that is going down, and has not begun there."""
        super().__init__()
        self.by_its_place = by_its_place


class Actors(Protocol):
    """Every actor owns a slice of the envs and does one thing after another. What it makes of a step is in its rows of
    `buffers` once `answer` has returned, and stays until it is asked for the next."""

    slices: list[tuple[int, int]]
    buffers: Buffers
    obs_space: gym.Space[Any]
    action_space: gym.Space[Any]
    action_labels: list[str] | None

    def start(self, index: int) -> None:
        """Begins to make its envs; the answer comes when they are made."""

    def ask(self, actor: int, command: str, argument: Any = None) -> None:
        """reset(seed), load_state(state) or step(actions). Where nobody is there to do it, `answer` says so."""

    def ready(self, actors: Collection[int], seconds: float) -> list[int]:
        """Those of them that have answered, after so many seconds at most."""

    def answer(self, actor: int) -> Any:
        """Of a step: finished episodes, and seconds it took. ActorDied, or the EnvFailure or UserError of an env."""

    def who(self, actor: int) -> str: ...

    def end(self, actor: int, seconds: float) -> str:
        """Kills it, unless it ends by itself within so many seconds; says how it ended."""

    def close(self) -> None: ...
