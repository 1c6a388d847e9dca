"""What exact resume needs: the seed of every env's current episode and the actions taken in it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError

_listeners: list[Callable[[], None]] = []


@contextmanager
def heard_by(listener: Callable[[], None]) -> Iterator[None]:
    """Calls `listener` for each episode that an engine has replayed meanwhile: long games take minutes."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def replayed() -> None:
    """An env is where its saved episode was."""
    for listener in _listeners:
        listener()


class ActionLog:
    """The latest actions of all envs, [time, N, ...]; long enough for the longest episode under way."""

    def __init__(self, n: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._rows = np.empty((256, n, *shape), dtype)
        self._used = 0

    def append(self, actions: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        """`lengths`: steps of each env's current episode, without this one."""
        if self._used == len(self._rows):
            self._make_room(int(lengths.max()))
        self._rows[self._used] = actions
        self._used += 1

    def of(self, env: int, length: int) -> NDArray[Any]:
        """The actions of one env's last `length` steps."""
        return self._rows[self._used - length : self._used, env].copy()

    def clear(self) -> None:
        self._used = 0

    def _make_room(self, needed: int) -> None:
        kept = self._rows[self._used - needed : self._used].copy()
        if 2 * needed > len(self._rows):  # moving alone would have to be repeated too soon
            self._rows = np.empty((2 * len(self._rows), *self._rows.shape[1:]), self._rows.dtype)
        self._rows[:needed] = kept
        self._used = needed

    def restore(self, actions: list[NDArray[Any]]) -> None:
        """Takes the actions of every env's current episode, each aligned to end at the present."""
        longest = max(len(part) for part in actions)
        capacity = max(256, 2 * longest)
        self._rows = np.zeros((capacity, *self._rows.shape[1:]), self._rows.dtype)
        self._used = longest
        for env, part in enumerate(actions):
            self._rows[longest - len(part) : longest, env] = part


def require_keys(state: dict[str, NDArray[Any]], keys: set[str], n_envs: int, engine: str) -> None:
    """Refuses a state of another engine, or of another number of envs, in one clear line."""
    if not keys <= set(state):
        raise UserError(
            f"the saved env state has no {', '.join(sorted(keys - set(state)))}: it was not saved by the engine "
            f"{engine!r}. Resume with the env.engine it was saved with."
        )
    saved = len(state["episode"])
    if saved != n_envs:
        raise UserError(
            f"the saved env state is of {saved} envs, this run has {n_envs}; resume with env.n_envs={saved}."
        )
