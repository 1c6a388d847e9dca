"""A rollout that is being filled env by env, with what is needed to finish it once every env has its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent.batch import OBS
from gymnast.envs.types import EpisodeRecord, Obs, StepBatch
from gymnast.rl.collector import Cut
from gymnast.rl.rollout import Rollout

State = dict[str, Tensor]


class Unroll:
    """Rows [t, envs] are written by whoever steps these envs; each group of envs is at a step of its own."""

    def __init__(self, rollout: Rollout, obs: Obs, state: State) -> None:
        self.rollout = rollout
        self.version = np.zeros((rollout.n_steps, rollout.n_envs), np.int64)  # updates before the action was chosen
        # after the last row: what the value of the rest is computed from
        self.last_obs = {key: array.copy() for key, array in obs.items()}
        self.last_state = {name: rows.clone() for name, rows in state.items()}
        self.last_starts = np.zeros(rollout.n_envs, np.bool_)
        self.begin()

    def begin(self) -> None:
        """Every row is to be written again, into the memory that the rollout has now."""
        self.arrays = {name: stream.numpy() for name, stream in self.rollout.streams.items()}
        self.missing = self.rollout.n_envs  # envs that have not made all their steps
        self.complete = False  # the learner may take it
        self.cuts: list[Cut] = []
        self.episodes: list[EpisodeRecord] = []
        self.measured: dict[str, float] = {}  # what it cost, once it is complete

    def write_choice(self, t: int, envs: slice, obs: Obs, columns: dict[str, NDArray[Any]], state: State) -> None:
        """What an agent saw and chose; `columns`: starts, action, logp and mask of these envs."""
        for key, array in obs.items():
            if array.ndim == 4:  # pictures change their layout on the way, at which torch is twice as fast
                self.rollout[OBS + key][t, envs].copy_(torch.from_numpy(array))
            else:
                self.arrays[OBS + key][t, envs] = array
        for name, column in columns.items():
            self.arrays[name][t, envs] = column
        length = self.rollout.sequence_length
        if length and t % length == 0:
            for name, states in self.rollout.states.items():
                states[t // length, envs] = state[name].cpu()

    def write_result(self, t: int, envs: slice, now: StepBatch, state: State, episodes: list[EpisodeRecord]) -> None:
        """What came of it. `now`: of all envs; `state`: of these, after the action."""
        for name, column in (("reward", now.reward), ("terminated", now.terminated), ("truncated", now.truncated)):
            self.arrays[name][t, envs] = column[envs]
        self.episodes += episodes
        if now.truncated[envs].any():
            rows = np.flatnonzero(now.truncated[envs])
            self._cut(
                t, envs.start + rows, {key: array[envs][rows] for key, array in now.final_obs.items()}, state, rows
            )

    def cut_before(self, t: int, envs: slice, state: State) -> None:
        """The step t of these envs is lost with their actor: their episodes end with the step before, at what the agent
        saw last, as a time limit would cut them. `state`: of these envs, before the action that is lost.

        Where t is 0 that step is in the rollout before, which ends at the same observation anyway.
        """
        if t == 0:
            return
        ended = self.arrays["terminated"][t - 1, envs] | self.arrays["truncated"][t - 1, envs]
        rows = np.flatnonzero(~ended)  # others have lost the first step of an episode: there is nothing to end
        self.arrays["truncated"][t - 1, envs.start + rows] = True
        if len(rows):
            obs = {key: leaf.numpy()[t, envs.start + rows] for key, leaf in self.rollout.obs.items()}
            self._cut(t - 1, envs.start + rows, obs, state, rows)

    def _cut(self, t: int, envs: NDArray[np.intp], obs: Obs, state: State, rows: NDArray[np.intp]) -> None:
        self.cuts.append(Cut(t, envs, obs, {name: kept[rows] for name, kept in state.items()}))

    def write_end(self, envs: slice, now: StepBatch, state: State, starts: NDArray[np.bool_]) -> None:
        """These envs have made all their steps."""
        for key, array in now.obs.items():
            self.last_obs[key][envs] = array[envs]
        for name, rows in state.items():
            self.last_state[name][envs] = rows
        self.last_starts[envs] = starts[envs]
        self.missing -= envs.stop - envs.start

    def exchange(self, rollout: Rollout) -> None:
        """Gives its memory to `rollout` and takes that one's: nothing is copied."""
        mine = self.rollout
        mine.streams, rollout.streams = rollout.streams, mine.streams
        mine.last_values, rollout.last_values = rollout.last_values, mine.last_values
        mine.states, rollout.states = rollout.states, mine.states
