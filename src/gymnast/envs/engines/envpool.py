"""EnvPool: envs in C++ threads. Only envs whose dynamics, rewards, starts and time limits were found to be Gymnasium's.

It resets an ended env in the step after (NEXT_STEP) and seeds an env once, at its creation. Here ended envs are reset
at once by their ids. Its episodes cannot be replayed from a seed, so a resumed run begins new ones (exact_resume
False), and a record's seed is that of the env, not of the episode. An env that ends by itself in the very step of its
time limit counts as truncated: EnvPool does not distinguish the two.

Atari (ALE/*): the same games under the same task, but not the same starts: EnvPool presses FIRE after the idle frames,
ALE's vector env before them, and an observation begins with copies of the first picture instead of black ones.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import package_problem
from gymnast.core.machine import cores
from gymnast.core.seeds import derive_seed
from gymnast.envs.engines.base import Engine, obstacle_of_own_envs
from gymnast.envs.engines.buffers import Buffers, refuse_bad
from gymnast.envs.engines.counted import Counted
from gymnast.envs.suites.atari.env import AtariGame
from gymnast.envs.suites.atari.task import MAX_FRAMES, NAMESPACE, AtariTask
from gymnast.envs.types import EpisodeRecord, StepBatch

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

# MuJoCo: starts, ends, and steps from equal states to 1e-6 (`tests/contract/test_mujoco.py`).
MUJOCO = frozenset({"HalfCheetah-v5", "Hopper-v5", "InvertedPendulum-v5", "Reacher-v5", "Swimmer-v5", "Walker2d-v5"})
# Checked against Gymnasium 1.4 with EnvPool 1.2.5. Classic control, CliffWalking: starts, and steps from equal states
# to 1e-6. Box2D, whose states cannot be set: starts, and lengths and returns under random policies (LunarLander
# also under Gymnasium's heuristic) agree within sampling error. Not here on purpose: Taxi (starts that Gymnasium never
# has), Pendulum (a step differed by up to 0.004) and Ant (4e-6 in the first step, 1e-3 in the third).
VERIFIED = MUJOCO | frozenset(
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
# It steps these 1.6 to 4 times as fast as sync with 8 envs, and slower with 2 (measured on two cores); MuJoCo 1.3 to
# 2.4 times on one core, and it uses all of them. On the others it does not earn back its import and inexact resume.
FASTER = MUJOCO | frozenset({"Acrobot-v1", "LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3"})
PAYS_FROM = 8  # envs


def atari_obstacle(task: AtariTask, max_frames: int | None) -> str | None:
    """What of an Atari task EnvPool cannot do, or None."""
    if not task.is_plain or task.actions is not None:
        return (
            "it shows whole grey screens and takes the game's own actions (env.kwargs observation, crop_*, "
            "show_action, actions)."
        )
    if not task.max_pool and task.frame_skip > 1:
        return "it always pools two frames, and env.kwargs.max_pool is false."
    if task.noop_max == 0:
        return "it idles for a frame at least, and env.kwargs.noop_max is 0."
    if (max_frames or MAX_FRAMES) % task.frame_skip:
        return (
            f"it counts its time limit in decisions of {task.frame_skip} frames, "
            f"and {max_frames or MAX_FRAMES} frames (env.max_episode_steps) are not a whole number of them."
        )
    return None


def _atari_options(task: AtariTask, max_frames: int | None) -> dict[str, Any]:
    """Every parameter of EnvPool's Atari, so that none of its defaults is relied on."""
    return {
        "max_episode_steps": (max_frames or MAX_FRAMES) // task.frame_skip,
        "stack_num": task.stack,
        "frame_skip": task.frame_skip,
        "noop_max": task.noop_max,
        "zero_discount_on_life_loss": False,
        "episodic_life": False,  # it would idle again, and press FIRE, in the middle of a game; lives are read instead
        "reward_clip": False,
        "use_fire_reset": task.fire_reset,
        "img_height": task.sides[0],
        "img_width": task.sides[1],
        "mode": -1,  # the game's own
        "difficulty": -1,
        "full_action_space": task.full_action_space,
        "repeat_action_probability": task.repeat_action_probability,
        "use_inter_area_resize": True,
        "gray_scale": True,
    }


class EnvPoolEngine(Counted, Engine):
    engine = "envpool"
    exact_resume = False
    priority = 20

    @classmethod
    def obstacle(cls, maker: EnvMaker) -> str | None:
        cfg, is_atari = maker.config, maker.suite.Task is AtariTask
        all_known = f"{', '.join(sorted(VERIFIED))} and {NAMESPACE}*"
        kwargs = cfg.kwargs if is_atari else ()
        found = obstacle_of_own_envs(maker, is_atari or cfg.id in VERIFIED, all_known, kwargs)
        if found is None and is_atari:
            found = atari_obstacle(maker.task, cfg.max_episode_steps)
        return found or package_problem("envpool", "envpool")

    @classmethod
    def pays(cls, maker: EnvMaker, n_envs: int) -> str | None:
        if maker.config.id not in FASTER or n_envs < PAYS_FROM:
            return None
        return f"EnvPool steps {maker.config.id} faster than Python does, and nothing wraps it"

    def __init__(self, maker: EnvMaker, n_envs: int, threads: int | None) -> None:
        env = maker()  # for its spaces, since EnvPool's own are without bounds
        env.close()
        super().__init__(maker.config.id, n_envs, env.observation_space, env.action_space)
        limit = maker.config.max_episode_steps
        self._task = self.name.rpartition(":")[2].removeprefix(NAMESPACE)  # as EnvPool calls it
        atari = maker.task if maker.suite.Task is AtariTask else None
        self._frames_a_step = atari.frame_skip if atari else 1
        self._fire = env.unwrapped.fire if isinstance(env.unwrapped, AtariGame) else None
        self._has_lives = atari is not None
        # what ends the learner's episode, while the game goes on
        self._ends_with_life = atari is not None and maker.role == "train" and atari.episodic_life
        self._ends_with_point = atari is not None and maker.role == "train" and atari.episodic_points
        self._leaf = self._layout.leaves[0]
        self._buffers = Buffers.allocate(self._layout, n_envs, None)
        self._options: dict[str, Any] = {"num_threads": threads or min(n_envs, cores())}
        if atari is not None:
            self._options |= _atari_options(atari, limit)
        elif limit is not None:
            self._options["max_episode_steps"] = limit
        self._pool: Any = None
        self._seeds: list[int] = []
        self._lives = np.zeros(n_envs, np.int64)
        self._lost = np.zeros(n_envs, np.bool_)  # a life in the last step: FIRE comes next, whatever the agent chose

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
            self._pool = envpool.make_gymnasium(self._task, num_envs=self.n_envs, seed=self._seeds, **self._options)
            observation, info = self._pool.reset()
        self._lengths.fill(0)
        self._raw_returns.fill(0.0)
        self._lost.fill(False)
        if self._has_lives:
            self._lives[:] = info["lives"]
        self._buffers.clear()
        self._buffers.obs[self._leaf.name][:] = self._leaf.convert(observation)
        return self._buffers.batch([])

    def step(self, actions: NDArray[Any]) -> StepBatch:
        buffers, leaf = self._buffers, self._leaf
        obs, final = buffers.obs[leaf.name], buffers.final_obs[leaf.name]
        taken = self._actions.batch(actions, self.n_envs) + self._actions.start
        if self._fire is not None:
            taken = np.where(self._lost, self._fire, taken).astype(taken.dtype)
        self._taken = taken
        observation, reward, terminated, truncated, info = self._pool.step(taken)
        obs[:] = leaf.convert(observation)
        buffers.reward[:] = reward
        buffers.terminated[:] = terminated
        np.logical_and(truncated, ~terminated, out=buffers.truncated)
        self._lengths += 1
        self._raw_returns += reward
        episodes: list[EpisodeRecord] = []
        ended = np.flatnonzero(terminated | truncated)
        if self._has_lives:
            self._end_for_learner(info["lives"])
        if ended.size:
            final[ended] = obs[ended]
            refuse_bad(final[ended], leaf.name, lambda index: self._who(ended[index]))
            episodes = [self._end_episode(row) for row in ended.tolist()]
            started, info = self._pool.reset(ended.astype(np.int32))
            obs[info["env_id"]] = leaf.convert(started)
            if self._has_lives:
                self._lives[info["env_id"]] = info["lives"]
        buffers.refuse_nonfinite(self._who)
        return buffers.batch(episodes)

    def _end_for_learner(self, lives: NDArray[np.int32]) -> None:
        """A lost life or a point may end the learner's episode, with what is seen now, while the game goes on."""
        buffers, leaf = self._buffers, self._leaf
        goes_on = ~buffers.terminated & ~buffers.truncated
        self._lost = (lives < self._lives) & (lives > 0) & goes_on
        self._lives[:] = lives
        ends = np.zeros(self.n_envs, np.bool_)
        if self._ends_with_life:
            ends |= self._lost
        if self._ends_with_point:
            ends |= (buffers.reward != 0) & goes_on
        buffers.final_obs[leaf.name][ends] = buffers.obs[leaf.name][ends]
        buffers.terminated |= ends

    def _end_episode(self, row: int) -> EpisodeRecord:
        frames = int(self._lengths[row]) * self._frames_a_step  # a game that ends within a decision had fewer
        return self._record(row, frames=frames, seed=self._seeds[row], terminated=bool(self._buffers.terminated[row]))

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        """New episodes, seeded by how many there were before: not those of the start again."""
        self._load_counts(state)
        self._episodes += 1  # the interrupted episodes are over
        return self._begin()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
