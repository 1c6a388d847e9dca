"""CartPole with all envs in one set of arrays, stepped by a compiled loop.

The arithmetic is that of Gymnasium's env, operation for operation, and every episode starts from its own seed exactly
as the plain env draws it, so this engine equals the sync engine bit for bit (`tests/contract`).
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numba import njit
from numpy.typing import NDArray

from gymnast.envs.engines.buffers import Buffers
from gymnast.envs.engines.cartpole.seeds import derive_seeds, first_uniforms
from gymnast.envs.engines.counted import Counted
from gymnast.envs.types import EpisodeRecord, StepBatch

_CHECKED_STEPS = 3
_START_LOW, _START_HIGH = -0.05, 0.05  # the plain env draws its four numbers from between these
_BLOCK = 64  # episodes of one env whose starts are computed together

_GRAVITY, _MASS_POLE, _TOTAL_MASS, _LENGTH, _FORCE, _TAU = 9.8, 0.1, 0.1 + 1.0, 0.5, 10.0, 0.02
_POLE_MASS_LENGTH = _MASS_POLE * _LENGTH
_MOST_X, _MOST_THETA = 2.4, 12 * 2 * math.pi / 360


@njit(cache=True, error_model="numpy")
def _advance(
    state: NDArray[np.float64],
    cosine: NDArray[np.float64],
    sine: NDArray[np.float64],
    action: NDArray[np.int64],
    steps: NDArray[np.int64],
    limit: int,
    punishes: bool,
    returns: NDArray[np.float64],
    obs: NDArray[np.float32],
    reward: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> bool:
    """One step of every env; returns whether any episode ended. Euler's method, in the plain env's order.

    Sine and cosine are given: NumPy's, like the plain env's, which may differ from the compiler's in the last bit.
    """
    any_ended = False
    for i in range(len(steps)):
        x, x_dot, theta, theta_dot = state[0, i], state[1, i], state[2, i], state[3, i]
        force = _FORCE if action[i] == 1 else -_FORCE
        temp = (force + _POLE_MASS_LENGTH * (theta_dot * theta_dot) * sine[i]) / _TOTAL_MASS
        theta_acc = (_GRAVITY * sine[i] - cosine[i] * temp) / (
            _LENGTH * (4.0 / 3.0 - _MASS_POLE * (cosine[i] * cosine[i]) / _TOTAL_MASS)
        )
        x_acc = temp - _POLE_MASS_LENGTH * theta_acc * cosine[i] / _TOTAL_MASS
        x, x_dot = x + _TAU * x_dot, x_dot + _TAU * x_acc
        theta, theta_dot = theta + _TAU * theta_dot, theta_dot + _TAU * theta_acc
        state[0, i], state[1, i], state[2, i], state[3, i] = x, x_dot, theta, theta_dot
        obs[i, 0], obs[i, 1], obs[i, 2], obs[i, 3] = x, x_dot, theta, theta_dot
        steps[i] += 1
        fell = x < -_MOST_X or x > _MOST_X or theta < -_MOST_THETA or theta > _MOST_THETA
        terminated[i] = fell
        truncated[i] = not fell and steps[i] >= limit
        reward[i] = (-1.0 if fell else 0.0) if punishes else 1.0
        returns[i] += reward[i]
        any_ended |= fell or truncated[i]
    return any_ended


class CartPoleVec(Counted):
    engine = "cartpole"

    def __init__(self, n_envs: int, *, name: str, max_episode_steps: int, sutton_barto_reward: bool = False) -> None:
        most = np.array([2 * _MOST_X, np.inf, 2 * _MOST_THETA, np.inf], np.float32)
        super().__init__(name, n_envs, gym.spaces.Box(-most, most, dtype=np.float32), gym.spaces.Discrete(2))
        self._limit, self._punishes = max_episode_steps, sutton_barto_reward
        self._buffers = Buffers.allocate(self._layout, n_envs, None)
        self._state = np.zeros((4, n_envs))
        self._cosine, self._sine = np.zeros(n_envs), np.zeros(n_envs)
        self._block_seeds = np.zeros((n_envs, _BLOCK), np.uint32)
        self._block_starts = np.zeros((n_envs, _BLOCK, 4))
        self._steps_to_check = 0

    def reset(self, seed: int) -> StepBatch:
        self._seed = seed
        self._episodes.fill(0)
        self._raw_returns.fill(0.0)
        self._fill_blocks(np.arange(self.n_envs))
        for row in range(self.n_envs):
            self._start_episode(row)
        return self._present()

    def step(self, actions: NDArray[Any]) -> StepBatch:
        buffers, theta = self._buffers, self._state[2]
        taken = self._actions.batch(actions, self.n_envs)
        if self._steps_to_check:
            self._steps_to_check -= 1
            if not np.isin(taken, (0, 1)).all():
                raise ValueError(f"{self.name}: actions {taken} are not all 0 or 1")
        any_ended = _advance(
            self._state,
            np.cos(theta, out=self._cosine),
            np.sin(theta, out=self._sine),
            taken,
            self._lengths,
            self._limit,
            self._punishes,
            self._raw_returns,
            buffers.obs["obs"],
            buffers.reward,
            buffers.terminated,
            buffers.truncated,
        )
        episodes: list[EpisodeRecord] = []
        if any_ended:
            ended = np.flatnonzero(buffers.terminated | buffers.truncated)
            buffers.final_obs["obs"][ended] = buffers.obs["obs"][ended]
            for row in ended.tolist():
                episodes.append(self._end_episode(row))
            buffers.obs["obs"][ended] = self._state[:, ended].T
        return buffers.batch(episodes)

    def _end_episode(self, row: int) -> EpisodeRecord:
        seed = int(self._block_seeds[row, self._episodes[row] % _BLOCK])
        terminated = bool(self._buffers.terminated[row])
        record = self._record(row, frames=int(self._lengths[row]), seed=seed, terminated=terminated)
        if self._episodes[row] % _BLOCK == 0:
            self._fill_blocks(np.array([row]))
        self._start_episode(row)
        return record

    def _start_episode(self, row: int) -> None:
        self._state[:, row] = self._block_starts[row, self._episodes[row] % _BLOCK]
        self._lengths[row] = 0

    def _fill_blocks(self, rows: NDArray[np.int64]) -> None:
        """Seeds and first states of the block of episodes that each of these envs is in."""
        first = self._episodes[rows] // _BLOCK * _BLOCK
        episodes = first[:, None] + np.arange(_BLOCK)
        seeds = derive_seeds(self._seed, np.repeat(rows, _BLOCK), episodes.ravel())
        starts = _START_LOW + (_START_HIGH - _START_LOW) * first_uniforms(seeds, 4)
        self._block_seeds[rows] = seeds.reshape(-1, _BLOCK)
        self._block_starts[rows] = starts.reshape(-1, _BLOCK, 4)

    def _present(self) -> StepBatch:
        self._buffers.clear()
        self._buffers.obs["obs"][:] = self._state.T
        self._steps_to_check = _CHECKED_STEPS
        return self._buffers.batch([])

    def save_state(self) -> dict[str, NDArray[Any]]:
        mine = {"steps": self._lengths, "state": self._state, "raw_return": self._raw_returns}
        return super().save_state() | {key: array.copy() for key, array in mine.items()}

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        self._load_counts(state, "steps", "state", "raw_return")
        self._raw_returns[:] = state["raw_return"]
        self._fill_blocks(np.arange(self.n_envs))
        self._state[:] = state["state"]
        self._lengths[:] = state["steps"]
        return self._present()

    def close(self) -> None:
        """Nothing is held outside this process's memory."""
