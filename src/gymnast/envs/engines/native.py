"""Gymnasium's own vector CartPole: all envs in one set of NumPy arrays.

It resets an ended env only in the step after (NEXT_STEP). Here ended envs are given their next episode at once, from
that episode's own seed and exactly as the plain env draws it, so that this engine equals the sync engine bit for bit.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from numpy.typing import NDArray

from gymnast.envs.engines.buffers import Buffers
from gymnast.envs.engines.replay import require_keys
from gymnast.envs.engines.seed_batch import derive_seeds, first_uniforms
from gymnast.envs.spaces import ActionLayout, ObsLayout
from gymnast.envs.types import EpisodeRecord, StepBatch

_CHECKED_STEPS = 3
_START_LOW, _START_HIGH = -0.05, 0.05  # the plain env draws its four numbers from between these
_BLOCK = 64  # episodes of one env whose starts are computed together


class _UncheckedActions(spaces.MultiDiscrete):
    """The vector env asserts all actions in every step, a seventh of its time; here the first steps are checked."""

    def contains(self, x: Any) -> bool:
        return True


class NativeEngine:
    engine = "native"
    exact_resume = True

    def __init__(self, n_envs: int, *, name: str, max_episode_steps: int, sutton_barto_reward: bool = False) -> None:
        self.n_envs, self.name = n_envs, name
        self._env: Any = CartPoleVectorEnv(n_envs, max_episode_steps, sutton_barto_reward=sutton_barto_reward)
        self._checked_actions = self._env.action_space
        self._env.action_space = _UncheckedActions([2] * n_envs)
        self._layout, self._actions = (
            ObsLayout(self._env.single_observation_space),
            ActionLayout(self._env.single_action_space),
        )
        self.obs_space = self._layout.obs_space
        self.action_space: gym.Space[Any] = self._actions.space
        self._buffers = Buffers.allocate(self._layout, n_envs, None)
        self._raw_returns = np.zeros(n_envs)
        self._episodes = np.zeros(n_envs, np.int64)
        self._seed = 0
        self._block_seeds = np.zeros((n_envs, _BLOCK), np.uint32)
        self._block_starts = np.zeros((n_envs, _BLOCK, 4))
        self._none_ended = np.zeros(n_envs, np.bool_)
        self._steps_to_check = 0

    def reset(self, seed: int) -> StepBatch:
        self._seed = seed
        self._episodes.fill(0)
        self._raw_returns.fill(0.0)
        self._env.reset(seed=0)  # makes its arrays; every state in them is replaced below
        self._fill_blocks(np.arange(self.n_envs))
        for row in range(self.n_envs):
            self._start_episode(row)
        return self._present()

    def step(self, actions: NDArray[Any]) -> StepBatch:
        buffers, env = self._buffers, self._env
        taken = self._actions.batch(actions, self.n_envs)
        if self._steps_to_check:
            self._steps_to_check -= 1
            if not self._checked_actions.contains(taken):
                raise ValueError(f"{self.name}: actions {taken} are not all 0 or 1")
        env.prev_done = self._none_ended  # no env is left to reset by itself
        observation, reward, terminated, truncated, _ = env.step(taken)
        self._raw_returns += reward
        np.copyto(buffers.obs["obs"], observation)
        np.copyto(buffers.reward, reward)
        np.copyto(buffers.terminated, terminated)
        np.logical_and(truncated, ~terminated, out=buffers.truncated)
        episodes: list[EpisodeRecord] = []
        ended = np.flatnonzero(terminated | truncated)
        if ended.size:
            buffers.final_obs["obs"][ended] = observation[ended]
            for row in ended.tolist():
                episodes.append(self._end_episode(row))
            buffers.obs["obs"][ended] = env.state[:, ended].T
        return buffers.batch(episodes)

    def _end_episode(self, row: int) -> EpisodeRecord:
        length = int(self._env.steps[row])
        record = EpisodeRecord(
            env=row,
            raw_return=float(self._raw_returns[row]),
            length=length,
            frames=length,
            seed=int(self._block_seeds[row, self._episodes[row] % _BLOCK]),
            terminated=bool(self._buffers.terminated[row]),
        )
        self._episodes[row] += 1
        self._raw_returns[row] = 0.0
        if self._episodes[row] % _BLOCK == 0:
            self._fill_blocks(np.array([row]))
        self._start_episode(row)
        return record

    def _start_episode(self, row: int) -> None:
        self._env.state[:, row] = self._block_starts[row, self._episodes[row] % _BLOCK]
        self._env.steps[row] = 0

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
        self._buffers.obs["obs"][:] = self._env.state.T
        self._steps_to_check = _CHECKED_STEPS
        return self._buffers.batch([])

    def save_state(self) -> dict[str, NDArray[Any]]:
        return {
            "seed": np.array([self._seed], np.int64),
            "episode": self._episodes.copy(),
            "steps": self._env.steps.copy(),
            "state": self._env.state.copy(),
            "raw_return": self._raw_returns.copy(),
        }

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        require_keys(state, {"seed", "episode", "steps", "state", "raw_return"}, self.n_envs, self.engine)
        self._seed = int(state["seed"][0])
        self._episodes[:] = state["episode"]
        self._raw_returns[:] = state["raw_return"]
        self._fill_blocks(np.arange(self.n_envs))
        self._env.reset(seed=0)
        self._env.state = state["state"].astype(np.float64)
        self._env.steps[:] = state["steps"]
        return self._present()

    def close(self) -> None:
        self._env.close()
