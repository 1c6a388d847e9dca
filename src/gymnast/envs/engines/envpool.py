"""EnvPool: envs in C++ threads. Only envs whose dynamics, rewards, starts and time limits were found to be Gymnasium's.

It resets an ended env in the step after (NEXT_STEP) and seeds an env once, at its creation. Here ended envs are reset
at once by their ids. Its episodes cannot be replayed from a seed, so a resumed run begins new ones (exact_resume
False), and a record's seed is that of the env, not of the episode. An env that ends by itself in the very step of its
time limit counts as truncated: EnvPool does not tell the two apart.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.envs.engines.buffers import Buffers, refuse_nan
from gymnast.envs.engines.replay import require_keys
from gymnast.envs.spaces import ActionLayout, ObsLayout
from gymnast.envs.types import EpisodeRecord, StepBatch
from gymnast.runtime import derive_seed

# Checked against Gymnasium 1.4 with EnvPool 1.2.5. Classic control, CliffWalking: starts, and steps from equal states
# to 1e-6. Box2D, whose states cannot be set: starts, and lengths and returns under random policies (LunarLander
# also under Gymnasium's heuristic) agree within sampling error. Not here on purpose: Taxi (starts that Gymnasium never
# has) and Pendulum (a step differed by up to 0.004).
VERIFIED = frozenset(
    {
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Acrobot-v1",
        "CliffWalking-v1",
        "LunarLander-v3",
        "LunarLanderContinuous-v3",
        "BipedalWalker-v3",
    }
)


class EnvPoolEngine:
    """`env`: one plain Gymnasium env, for its spaces; EnvPool's own are without bounds."""

    engine = "envpool"
    exact_resume = False

    def __init__(
        self,
        env: gym.Env[Any, Any],
        n_envs: int,
        *,
        name: str,
        max_episode_steps: int | None,
        threads: int | None = None,
    ) -> None:
        self.n_envs, self.name = n_envs, name
        self._layout, self._actions = ObsLayout(env.observation_space), ActionLayout(env.action_space)
        self.obs_space = self._layout.obs_space
        self.action_space: gym.Space[Any] = self._actions.space
        self._leaf = self._layout.leaves[0]
        self._buffers = Buffers.allocate(self._layout, n_envs, None)
        self._options: dict[str, Any] = {"num_threads": threads or min(n_envs, os.cpu_count() or 1)}
        if max_episode_steps is not None:
            self._options["max_episode_steps"] = max_episode_steps
        self._pool: Any = None
        self._seed = 0
        self._seeds: list[int] = []
        self._lengths = np.zeros(n_envs, np.int64)
        self._raw_returns = np.zeros(n_envs)
        self._episodes = np.zeros(n_envs, np.int64)

    def reset(self, seed: int) -> StepBatch:
        self._seed = seed
        self._episodes.fill(0)
        return self._begin()

    def _begin(self) -> StepBatch:
        import envpool

        # its seeds are signed 32-bit numbers
        self._seeds = [
            derive_seed(self._seed, row, int(k)) & 0x7FFF_FFFF for row, k in enumerate(self._episodes.tolist())
        ]
        self.close()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*precision lowered by casting.*")  # of spaces not used here
            self._pool = envpool.make_gymnasium(self.name, num_envs=self.n_envs, seed=self._seeds, **self._options)
            observation, _ = self._pool.reset()
        self._lengths.fill(0)
        self._raw_returns.fill(0.0)
        self._buffers.clear()
        self._buffers.obs[self._leaf.name][:] = self._leaf.convert(observation)
        return self._buffers.batch([])

    def step(self, actions: NDArray[Any]) -> StepBatch:
        buffers, leaf = self._buffers, self._leaf
        obs, final = buffers.obs[leaf.name], buffers.final_obs[leaf.name]
        taken = self._actions.batch(actions, self.n_envs) + self._actions.start
        observation, reward, terminated, truncated, _ = self._pool.step(taken)
        obs[:] = leaf.convert(observation)
        buffers.reward[:] = reward
        buffers.terminated[:] = terminated
        np.logical_and(truncated, ~terminated, out=buffers.truncated)
        self._lengths += 1
        self._raw_returns += reward
        episodes: list[EpisodeRecord] = []
        ended = np.flatnonzero(terminated | truncated)
        if ended.size:
            final[ended] = obs[ended]
            refuse_nan(final[ended], leaf.name, self.name)
            episodes = [self._end_episode(row) for row in ended.tolist()]
            started, info = self._pool.reset(ended.astype(np.int32))
            obs[info["env_id"]] = leaf.convert(started)
        buffers.refuse_nonfinite(self.name)
        return buffers.batch(episodes)

    def _end_episode(self, row: int) -> EpisodeRecord:
        length = int(self._lengths[row])
        record = EpisodeRecord(
            env=row,
            raw_return=float(self._raw_returns[row]),
            length=length,
            frames=length,
            seed=self._seeds[row],
            terminated=bool(self._buffers.terminated[row]),
        )
        self._lengths[row] = 0
        self._raw_returns[row] = 0.0
        self._episodes[row] += 1
        return record

    def save_state(self) -> dict[str, NDArray[Any]]:
        return {"seed": np.array([self._seed], np.int64), "episode": self._episodes.copy()}

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        """New episodes, seeded by how many there were before: not those of the start again."""
        require_keys(state, {"seed", "episode"}, self.n_envs, self.engine)
        self._seed = int(state["seed"][0])
        self._episodes[:] = state["episode"] + 1  # the interrupted episodes are over
        return self._begin()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
