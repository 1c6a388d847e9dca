"""Envs stepped one after another in this process: runs everything, and is the reference for the other engines."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs.engines.base import Engine
from gymnast.envs.engines.buffers import Buffers, refuse_bad
from gymnast.envs.engines.counted import Replayed
from gymnast.envs.engines.replay import replayed
from gymnast.envs.forbid import agent_labels, find_forbid
from gymnast.envs.recorder import OLD_RESET, OLD_STEP, recorder_of
from gymnast.envs.spaces import mask_parts, mask_size, scalars
from gymnast.envs.types import LEARNER_END, EpisodeRecord, Obs, StepBatch

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

_CHECKED_STEPS = 3  # of the vector, after every reset: long enough to see each env's first observations and rewards


class SyncEngine(Replayed, Engine):
    """`first_env` and `buffers`: for a worker that owns a slice of a larger vector, its place in it."""

    engine = "sync"

    @classmethod
    def obstacle(cls, maker: EnvMaker) -> str | None:
        if maker.one_per_process and maker.render_mode is None:
            return "a process may hold one of these envs only, and this process may have another."
        return None

    @classmethod
    def pays(cls, maker: EnvMaker, n_envs: int) -> str | None:
        return "runs every env, and is fastest for one that is cheap to step"

    @classmethod
    def open(cls, maker: EnvMaker, n_envs: int, threads: int | None) -> SyncEngine:
        return cls(maker, n_envs, name=maker.title, action_masks=maker.config.action_masks)

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        n_envs: int,
        *,
        name: str,
        action_masks: bool = False,
        first_env: int = 0,
        buffers: Buffers | None = None,
    ) -> None:
        self.envs = [make_env() for _ in range(n_envs)]
        super().__init__(name, n_envs, self.envs[0].observation_space, self.envs[0].action_space)
        self.first_env = first_env
        self.action_labels = agent_labels(self.envs[0])
        if len({id(env.unwrapped) for env in self.envs}) < n_envs:
            raise UserError(
                f"{name}: the env factory returned the same env twice; it must make another one every time."
            )
        self._mask_size = mask_size(self.action_space) if action_masks else None
        self._mask_parts = mask_parts(self.action_space)
        self._buffers = buffers or Buffers.allocate(self._layout, n_envs, self._mask_size)
        self._recorders = [recorder_of(env) for env in self.envs]
        self._steppers = [env.step for env in self.envs]
        self._learner_ends = bool(self.envs[0].metadata.get(LEARNER_END))
        self._rewards: list[Any] = [0.0] * n_envs
        self._seeds = [0] * n_envs  # what the current episodes were reset with
        self._flags_set = False
        self._steps_to_check = 0

    def reset(self, seed: int) -> StepBatch:
        self._seed, self._taken = seed, None
        self._episodes.fill(0)
        self._lengths.fill(0)
        self._log.clear()
        self._steps_to_check = _CHECKED_STEPS
        self._buffers.clear()
        for row in range(self.n_envs):
            self._write(row, *self._start_episode(row))
        self._buffers.refuse_nonfinite(self._who)
        return self._buffers.batch([])

    def step(self, actions: NDArray[Any]) -> StepBatch:
        buffers = self._buffers
        taken = self._taken = self._actions.batch(actions, self.n_envs)
        self._log.append(taken, self._lengths)
        self._lengths += 1
        if self._flags_set:
            buffers.terminated.fill(False)
            buffers.truncated.fill(False)
            self._flags_set = False
        episodes: list[EpisodeRecord] = []
        rewards, steppers, process = self._rewards, self._steppers, os.getpid()
        plain = (
            buffers.obs["obs"] if self._layout.plain and self._mask_size is None and not self._steps_to_check else None
        )
        row = 0
        try:
            for row, action in enumerate(self._actions.rows(taken)):
                observation, reward, terminated, truncated, info = steppers[row](action)
                rewards[row] = reward
                if self._steps_to_check:
                    self._check_step(row, observation, reward, terminated, truncated)
                if terminated or truncated:
                    observation, info = self._end_episode(row, observation, bool(terminated), info, episodes)
                elif self._learner_ends and info.get(LEARNER_END):
                    self._layout.write(buffers.final_obs, row, observation)
                    buffers.terminated[row] = self._flags_set = True
                if plain is not None:
                    plain[row] = observation
                else:
                    self._write(row, observation, info)
        except (EnvFailure, UserError):
            raise
        except (Exception, SystemExit) as error:  # whatever an env may raise: it is foreign code
            raise self._crash(row, "step", error) from error
        if os.getpid() != process:
            self._end_copy()
        buffers.reward[:] = rewards
        if self._steps_to_check:
            self._steps_to_check -= 1
        buffers.refuse_nonfinite(self._who)
        return buffers.batch(episodes)

    def _end_copy(self) -> NoReturn:
        """Ends a copy of this process that an env made by os.fork() and let return: both would write the same files."""
        print(f"gymnast: {self.name}: an env forked in its step; the copy of this process ends here.", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)

    def _end_episode(
        self, row: int, observation: Any, terminated: bool, info: dict[str, Any], episodes: list[EpisodeRecord]
    ) -> tuple[Any, dict[str, Any]]:
        """Records the episode, keeps its last observation, and begins the next one."""
        buffers, recorder = self._buffers, self._recorders[row]
        self._layout.write(buffers.final_obs, row, observation)
        for name, array in buffers.final_obs.items():
            refuse_bad(array[row : row + 1], name, lambda _: self._who(row))
        # an env that says both has ended: there is nothing to bootstrap from
        (buffers.terminated if terminated else buffers.truncated)[row] = True
        self._flags_set = True
        episodes.append(
            EpisodeRecord(
                env=self.first_env + row,
                raw_return=recorder.raw_return,
                length=int(self._lengths[row]),
                frames=recorder.frames,
                seed=self._seeds[row],
                terminated=terminated,
                components=recorder.components,
                info=scalars(info),
                shaped_return=recorder.shaped_return,
            )
        )
        self._episodes[row] += 1
        self._lengths[row] = 0
        return self._start_episode(row)

    def _start_episode(self, row: int) -> tuple[Any, dict[str, Any]]:
        self._seeds[row] = self._seed_of(row)
        try:
            started = self.envs[row].reset(seed=self._seeds[row])
        except (EnvFailure, UserError):
            raise
        except (Exception, SystemExit) as error:  # foreign code again
            raise self._crash(row, "reset", error) from error
        if not (isinstance(started, tuple) and len(started) == 2 and isinstance(started[1], dict)):
            raise EnvFailure(f"{self.name}: {OLD_RESET}")
        observation, info = started
        if self._steps_to_check and (problem := self._layout.problem(observation)):
            raise EnvFailure(f"{self.name}: after reset, {problem}.")
        return observation, info

    def _seed_of(self, row: int) -> int:
        """Of the episode that an env begins now."""
        return derive_seed(self._seed, self.first_env + row, int(self._episodes[row]))

    def _write(self, row: int, observation: Any, info: dict[str, Any]) -> None:
        self._layout.write(self._buffers.obs, row, observation)
        if self._buffers.mask is None:
            return
        mask = info.get("action_mask")
        if mask is None:
            raise UserError(f"env.action_masks: true, but {self.name} gives no info['action_mask']; set it to false.")
        if np.size(mask) != self._mask_size:
            raise EnvFailure(f"{self.name}: info['action_mask'] has {np.size(mask)} entries, needs {self._mask_size}.")
        self._buffers.mask[row] = np.ravel(mask)
        allowed = np.logical_or.reduceat(self._buffers.mask[row], self._mask_parts)
        if not allowed.all():
            raise self._nothing_allowed(row, int(allowed.argmin()))

    def _nothing_allowed(self, row: int, part: int) -> EnvFailure:
        some = "no action at all" if len(self._mask_parts) == 1 else f"nothing in component {part} of the action"
        forbid = find_forbid(self.envs[row])
        named = "" if forbid is None else f" ({', '.join(forbid.labels[part])}), with env.forbid on top"
        return EnvFailure(f"{self._who(row)} allows {some} in info['action_mask']{named}.")

    def _check_step(self, row: int, observation: Any, reward: Any, terminated: Any, truncated: Any) -> None:
        problem = self._layout.problem(observation)
        if np.ndim(reward) != 0 or np.asarray(reward).dtype.kind not in "fiub":
            problem = f"reward is {reward!r}, not a number"
        for flag, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                problem = f"{flag} is {value!r}, not true or false"
        if problem:
            raise EnvFailure(f"{self.name}: in step, {problem}.")

    def _crash(self, row: int, where: str, error: BaseException) -> EnvFailure:
        *_, last = traceback.extract_tb(error.__traceback__)
        if "values to unpack (expected 5" in str(error) and "/gymnasium/" in last.filename.replace("\\", "/"):
            return EnvFailure(f"{self.name}: {OLD_STEP}")  # found by Gymnasium's own wrapper, its time limit
        trace = "".join(traceback.format_exception(error)).rstrip()
        return EnvFailure(f"{self._who(row)} crashed in {where}.\n{trace}")

    def _seen(self) -> Obs:
        return self._buffers.obs

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        """Replays every env's episode from its seed. An env that then differs begins a new one, with a warning."""
        taken = self._load_actions(state)
        self._lengths[:] = state["length"]
        self._steps_to_check = _CHECKED_STEPS
        self._buffers.clear()
        for row in range(self.n_envs):
            self._write(row, *self._replay(row, taken[row]))
            if not self._same_as_saved(row, state):
                warnings.warn(
                    f"{self.name}: env {self.first_env + row} does not repeat itself from its seed; "
                    "it continues with a new episode instead of the interrupted one.",
                    stacklevel=2,
                )
                self._episodes[row] += 1
                self._lengths[row] = 0
                taken[row] = taken[row][:0]
                self._write(row, *self._start_episode(row))
            replayed()
        self._log.restore(taken)
        return self._buffers.batch([])

    def _replay(self, row: int, actions: NDArray[Any]) -> tuple[Any, dict[str, Any]]:
        observation, info = self._start_episode(row)
        try:
            for action in self._actions.rows(actions):
                observation, _, _, _, info = self._steppers[row](action)
        except (Exception, SystemExit) as error:  # foreign code
            raise self._crash(row, "the replay of its episode", error) from error
        return observation, info

    def _same_as_saved(self, row: int, state: dict[str, NDArray[Any]]) -> bool:
        return all(np.array_equal(array[row], state[f"obs/{name}"][row]) for name, array in self._buffers.obs.items())

    def close(self) -> None:
        for env in self.envs:
            env.close()
