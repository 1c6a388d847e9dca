"""What engines that are their own vectors share: their spaces, and the counts of every env's current episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.envs.engines.replay import ActionLog, require_keys
from gymnast.envs.spaces import ActionLayout, ObsLayout
from gymnast.envs.types import EpisodeRecord, Obs


class Counted:
    engine: str
    first_env = 0  # of a larger vector, where this is a slice of one
    exact_resume = True
    action_labels: list[str] | None = None

    def __init__(self, name: str, n_envs: int, obs_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.name, self.n_envs = name, n_envs
        self._layout, self._actions = ObsLayout(obs_space), ActionLayout(action_space)
        self.obs_space = self._layout.obs_space
        self.action_space: gym.Space[Any] = self._actions.space
        self._seed = 0
        # of the current episodes: their index, decisions so far, and rewards so far where the engine adds them up
        self._episodes = np.zeros(n_envs, np.int64)
        self._lengths = np.zeros(n_envs, np.int64)
        self._raw_returns = np.zeros(n_envs)
        self._taken: NDArray[Any] | None = None  # the last actions; None: there was a reset since

    def _who(self, row: int) -> str:
        """For people: the env of a row, and the moment it is at."""
        env = f"{self.name}: env {self.first_env + row}"
        if self._taken is None:
            return f"{env}, after a reset,"
        step = f"in step {self._lengths[row]} of its episode" if self._lengths[row] else "at the end of an episode"
        return f"{env}, {step}, after the action {self._taken[row]},"

    def _record(self, row: int, *, frames: int, seed: int, terminated: bool, **more: Any) -> EpisodeRecord:
        """Of an env's episode that has ended; the counts are those of the next one from here on."""
        record = EpisodeRecord(
            env=row,
            raw_return=float(self._raw_returns[row]),
            length=int(self._lengths[row]),
            frames=frames,
            seed=seed,
            terminated=terminated,
            **more,
        )
        self._episodes[row] += 1
        self._lengths[row] = 0
        self._raw_returns[row] = 0.0
        return record

    def save_state(self) -> dict[str, NDArray[Any]]:
        return {"seed": np.array([self._seed], np.int64), "episode": self._episodes.copy()}

    def _load_counts(self, state: dict[str, NDArray[Any]], *more: str) -> None:
        """Seed and episodes; `more`: what else the state must have."""
        require_keys(state, {"seed", "episode", *more}, self.n_envs, self.engine)
        self._seed = int(state["seed"][0])
        self._episodes[:] = state["episode"]


class Replayed(Counted):
    """One whose episodes are reached again by their seeds and the actions taken in them."""

    def __init__(self, name: str, n_envs: int, obs_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(name, n_envs, obs_space, action_space)
        self._log = ActionLog(n_envs, self._actions.shape, self._actions.dtype)

    def _seen(self) -> Obs:
        """The observations to act on."""
        raise NotImplementedError

    def save_state(self) -> dict[str, NDArray[Any]]:
        taken = [self._log.of(row, length) for row, length in enumerate(self._lengths.tolist())]
        seen = {f"obs/{name}": array.copy() for name, array in self._seen().items()}
        return super().save_state() | seen | {"length": self._lengths.copy(), "actions": np.concatenate(taken)}

    def _load_actions(self, state: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Those of each env's current episode."""
        self._load_counts(state, "length", "actions")
        return np.split(state["actions"].astype(self._actions.dtype), np.cumsum(state["length"])[:-1])
