"""Shaped rewards for the learner, on top of any engine. Scores stay what they are: raw returns, recorded below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.shaping.components import TRUE_REWARD, Potential, Shaper, State, Values
from gymnast.envs.types import SUM_TOLERANCE, EpisodeRecord, Obs, StepBatch, VecEnv


class ShapedVecEnv:
    """Adds weighted components to every reward and says what each one added (`StepBatch.components`)."""

    def __init__(self, env: VecEnv, name: str, shaper: Shaper, weights: Mapping[str, float], gamma: float) -> None:
        self.engine, self.n_envs, self.exact_resume = env.engine, env.n_envs, env.exact_resume
        self.obs_space, self.action_space = env.obs_space, env.action_space
        self.action_labels, self.actors = env.action_labels, getattr(env, "actors", None)
        self._env, self._name, self._width, self._gamma = env, name, shaper.width, gamma
        self._components = [(part, weight, shaper.components[part]) for part, weight in weights.items()]
        self._refuse_other_observations()
        self._state: State = np.zeros((env.n_envs, shaper.width))
        self._potentials: dict[str, Values] = {}  # of the current states
        self._reward = np.zeros(env.n_envs, np.float32)
        # of each env's episode so far
        self._sums = {part: np.zeros(env.n_envs) for part in (TRUE_REWARD, *weights)}
        self._shaped_returns = np.zeros(env.n_envs)

    def reset(self, seed: int) -> StepBatch:
        batch = self._env.reset(seed)
        self._stand_at(batch)
        for total in (*self._sums.values(), self._shaped_returns):
            total.fill(0.0)
        return batch

    def step(self, actions: NDArray[Any]) -> StepBatch:
        batch = self._env.step(actions)
        state = self._newest(batch.obs)
        following = state
        ended = np.flatnonzero(batch.terminated | batch.truncated)
        if ended.size:  # `obs` is of the next episode already
            following = state.copy()
            following[ended] = self._newest(batch.final_obs)[ended]
        parts = {TRUE_REWARD: batch.reward.astype(np.float64)}
        for name, weight, component in self._components:
            if isinstance(component, Potential):
                after = self._values(name, component.of(following))
                gain = self._gamma * np.where(batch.terminated, 0.0, after) - self._potentials[name]
                self._potentials[name] = self._values(name, component.of(state)) if ended.size else after
            else:
                gain = self._values(name, component.of(self._state, actions, following))
            parts[name] = weight * gain
        self._state = state
        self._reward[:] = sum(parts.values())
        for name, values in parts.items():
            self._sums[name] += values
        self._shaped_returns += self._reward
        for record in batch.episodes:
            self._close_episode(record)
        batch.reward, batch.components = self._reward, parts
        return batch

    def save_state(self) -> dict[str, NDArray[Any]]:
        """Potentials are not in it: they follow from the observations."""
        sums = {f"shaping/sum/{name}": total.copy() for name, total in self._sums.items()}
        mine = {"shaping/state": self._state.copy(), "shaping/return": self._shaped_returns.copy()}
        return self._env.save_state() | sums | mine

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        batch = self._env.load_state({key: array for key, array in state.items() if not key.startswith("shaping/")})
        self._stand_at(batch)
        # an env that could not continue its episode begins a new one, and so do the sums
        goes_on = (self._state == state["shaping/state"]).all(axis=1)
        for name, total in self._sums.items():
            total[:] = np.where(goes_on, state[f"shaping/sum/{name}"], 0.0)
        self._shaped_returns[:] = np.where(goes_on, state["shaping/return"], 0.0)
        return batch

    def close(self) -> None:
        self._env.close()

    def _stand_at(self, batch: StepBatch) -> None:
        self._state = self._newest(batch.obs)
        self._potentials = {
            name: self._values(name, component.of(self._state))
            for name, _, component in self._components
            if isinstance(component, Potential)
        }

    def _newest(self, obs: Obs) -> State:
        """The env's own latest observation; stacks have it last."""
        return obs["obs"][:, -self._width :].astype(np.float64)

    def _values(self, name: str, values: Values) -> Values:
        if np.shape(values) != (self.n_envs,):
            raise EnvFailure(
                f"{self._name}: the reward component {name!r} has the shape {np.shape(values)}, "
                f"not one number for each of {self.n_envs} envs."
            )
        return values

    def _close_episode(self, record: EpisodeRecord) -> None:
        if clash := sorted(set(record.components) & set(self._sums)):
            raise UserError(f"env.shaping: {self._name} itself has a reward component named {', '.join(clash)}.")
        for name, total in self._sums.items():
            record.components[name] = float(total[record.env])
            total[record.env] = 0.0
        record.shaped_return = float(self._shaped_returns[record.env])
        self._shaped_returns[record.env] = 0.0

    def _refuse_other_observations(self) -> None:
        space = self.obs_space.get("obs")
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1 or space.shape[0] % self._width:
            raise UserError(
                f"env.shaping: the components of {self._name} read its {self._width} numbers, "
                f"and the observations here are {space or ', '.join(self.obs_space)}. Drop env.shaping or the wrapper."
            )


def check_sum(batch: StepBatch) -> None:
    """Refuses a reward that is not the sum of its components. NaN is not equal to anything, so it is refused too."""
    if batch.components is None:
        return
    total = np.sum(list(batch.components.values()), axis=0)
    wrong = ~(np.abs(total - batch.reward) <= SUM_TOLERANCE * np.maximum(1.0, np.abs(total)))
    for row in np.flatnonzero(wrong):
        parts = ", ".join(f"{name} {values[row]:g}" for name, values in batch.components.items())
        raise EnvFailure(
            f"env.shaping: env {row} was paid {batch.reward[row]:g}, but its components ({parts}) add up to "
            f"{total[row]:g}."
        )
