"""ALE's own vector env: Atari games and their pictures in C++ threads, equal to the plain env bit for bit.

It would reset an ended game in the step after (NEXT_STEP); here that is done at once. It is asked neither to clip
rewards nor to end games with a life: the score is the game's, lost lives are read off `lives`.

Each env is seeded once, with that of its first episode, and then draws its idle frames from a stream of its own: a seed
for every episode would boot the emulator again, a tenth of a second. So a record's seed is that of the env. A resumed
game is reached by as many resets and actions as before; sticky actions depend on all games before and begin a new one.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.machine import cores
from gymnast.core.seeds import derive_seed
from gymnast.envs.engines.base import Engine, obstacle_of_own_envs
from gymnast.envs.engines.counted import Replayed
from gymnast.envs.suites import find_spec
from gymnast.envs.suites.atari.env import AtariGame, ale_seed
from gymnast.envs.suites.atari.task import MAX_FRAMES, NAMESPACE, AtariTask
from gymnast.envs.types import EpisodeRecord, Obs, StepBatch

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker


class AleEngine(Replayed, Engine):
    engine = "ale"
    priority = 40

    @classmethod
    def obstacle(cls, maker: EnvMaker) -> str | None:
        is_atari, only = maker.suite.Task is AtariTask, f"Atari games ({NAMESPACE}*)"
        found = obstacle_of_own_envs(maker, is_atari, only, maker.config.kwargs)
        if found is None and not maker.task.is_picture:
            found = f"it shows pictures, and env.kwargs.observation is {maker.task.observation}."
        return found

    @classmethod
    def pays(cls, maker: EnvMaker, n_envs: int) -> str | None:
        if maker.suite.Task is AtariTask and not maker.task.is_picture:
            return None
        return "ALE's vector env steps Atari games in C++, and nothing wraps it"

    def __init__(self, maker: EnvMaker, n_envs: int, threads: int | None) -> None:
        from ale_py.vector_env import AtariVectorEnv

        from gymnast.envs.suites.atari.pictures import Pictures

        task: AtariTask = maker.task
        env = maker()  # for its spaces, keys and screen
        env.close()
        game: AtariGame = env.unwrapped  # type: ignore[assignment]
        super().__init__(maker.config.id, n_envs, env.observation_space, env.action_space)
        # ALE shrinks grey screens in its threads; what else is seen is made here of the screen itself
        self._pictures = None if task.is_plain else Pictures(n_envs, game.screen, task)
        height, width = game.screen if self._pictures else task.sides
        self._shown_actions = len(game.actions) if task.show_action else 0
        # what ends the learner's episode, while the game goes on
        self._ends_with_life = maker.role == "train" and task.episodic_life
        self._ends_with_point = maker.role == "train" and task.episodic_points
        self.exact_resume = task.repeat_action_probability == 0.0
        self._vec = AtariVectorEnv(
            find_spec(maker.config.id).kwargs["game"],
            n_envs,
            num_threads=threads or min(n_envs, cores()),
            max_num_frames_per_episode=maker.config.max_episode_steps or MAX_FRAMES,
            repeat_action_probability=task.repeat_action_probability,
            full_action_space=game.full_action_space,
            autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP,
            img_height=height,
            img_width=width,
            grayscale=task.observation == "grey",
            stack_num=1 if self._pictures else task.stack,
            frameskip=task.frame_skip,
            maxpool=task.max_pool,
            noop_max=task.noop_max,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=task.fire_reset,
        )
        known = self._vec.ale.get_action_set()
        self._keys = np.array([known.index(key) for key in game.keys])  # as ALE numbers them
        self._n_actions, self._fire = len(game.actions), game.fire
        self._lives = np.zeros(n_envs, np.int64)
        self._lost = np.zeros(n_envs, np.bool_)  # a life in the last step: FIRE comes next, whatever the agent chose
        self._first_frames = np.zeros(n_envs, np.int64)  # ALE's count at the start: idle frames are not the agent's
        self._obs: NDArray[np.uint8] = np.zeros(0, np.uint8)

    def reset(self, seed: int) -> StepBatch:
        self._seed = seed
        self._episodes.fill(0)
        self._log.clear()
        self._start_envs(np.ones(self.n_envs, np.bool_))
        return self._present()

    def step(self, actions: NDArray[Any]) -> StepBatch:
        taken = self._actions.batch(actions, self.n_envs)
        if taken.min() < 0 or taken.max() >= self._n_actions:  # in C++ it would wait for ever
            raise ValueError(f"{self.name}: actions {taken} are not all from 0 to {self._n_actions - 1}")
        if self._fire is not None:
            taken = np.where(self._lost, self._fire, taken).astype(taken.dtype)
        self._log.append(taken, self._lengths)
        obs, reward, terminated, truncated, info = self._play(taken)
        self._lengths += 1
        ended = terminated | truncated
        self._count_lives(info["lives"], ended)
        if self._ends_with_life:
            terminated = terminated | self._lost
        if self._ends_with_point:
            terminated = terminated | ((reward != 0) & ~truncated)
        episodes: list[EpisodeRecord] = []
        if ended.any():
            frames = info["episode_frame_number"]
            episodes = [
                self._end_episode(row, bool(terminated[row]), int(frames[row]))
                for row in np.flatnonzero(ended).tolist()
            ]
            self._next_episodes(ended)
        return StepBatch(self._seen(), reward.astype(np.float32), terminated, truncated, {"obs": obs}, episodes)

    def _play(self, taken: NDArray[Any]) -> tuple[Any, ...]:
        """Every array is a new one, made in C++ for this step: it is handed on, not copied."""
        screens, reward, *rest = self._vec.step(self._keys[taken])
        if self._pictures is not None:
            self._pictures.add(screens[:, 0])
            self._pictures.mark(taken, self._shown_actions)
        self._obs = screens if self._pictures is None else self._pictures.obs.copy()
        self._raw_returns += reward
        return self._obs, reward, *rest

    def _count_lives(self, lives: NDArray[Any], ended: NDArray[np.bool_]) -> None:
        self._lost = (lives < self._lives) & (lives > 0) & ~ended
        self._lives = lives

    def _end_episode(self, row: int, terminated: bool, frame: int) -> EpisodeRecord:
        frames, seed = frame - int(self._first_frames[row]), derive_seed(self._seed, row, 0)
        info = {"lives": int(self._lives[row]), "episode_frame_number": frame}
        return self._record(row, frames=frames, seed=seed, terminated=terminated, info=info)

    def _start_envs(self, which: NDArray[np.bool_]) -> None:
        """The first episode of these envs; the others stay as they are."""
        rows = np.flatnonzero(which).tolist()
        seeds = [ale_seed(derive_seed(self._seed, row, 0)) for row in rows]
        self._started(which, *self._vec.reset(seed=np.array(seeds), options={"reset_mask": which}))

    def _next_episodes(self, which: NDArray[np.bool_]) -> None:
        self._started(which, *self._vec.reset(options={"reset_mask": which}))

    def _started(self, which: NDArray[np.bool_], screens: NDArray[np.uint8], info: dict[str, Any]) -> None:
        if self._pictures is not None:
            self._pictures.start(screens[:, 0], which)
        self._obs = screens if self._pictures is None else self._pictures.obs.copy()
        self._lives = info["lives"]
        self._lost[which] = False
        self._first_frames[which] = info["episode_frame_number"][which]
        self._lengths[which] = 0
        self._raw_returns[which] = 0

    def _present(self) -> StepBatch:
        nothing, no_ends = np.zeros(self.n_envs, np.float32), np.zeros(self.n_envs, np.bool_)
        return StepBatch(self._seen(), nothing, no_ends, no_ends.copy(), self._seen(), [])

    def _seen(self) -> Obs:
        return {"obs": self._obs}

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        """Plays every game again. One that then differs begins a new episode, with a warning."""
        taken = self._load_actions(state)
        lengths = state["length"].astype(np.int64)
        self._start_envs(np.ones(self.n_envs, np.bool_))
        # All games are stepped together: one of k steps starts when k are left, whatever its env did until then.
        for left in range(int(lengths.max()), -1, -1):
            self._rewind(np.flatnonzero(lengths == left))
            if left:
                actions = [part[len(part) - left] if len(part) >= left else 0 for part in taken]
                _, _, ended, cut, info = self._play(np.array(actions, self._actions.dtype))
                self._count_lives(info["lives"], ended | cut)
        self._lengths[:] = lengths
        different = (self._obs != state["obs/obs"]).any(axis=(1, 2, 3))
        if different.any():
            rows = np.flatnonzero(different).tolist()
            if self.exact_resume:
                warnings.warn(
                    f"{self.name}: envs {', '.join(map(str, rows))} do not repeat themselves from their seeds; "
                    "they continue with new episodes instead of the interrupted ones.",
                    stacklevel=2,
                )
            self._episodes[rows] += 1
            self._next_episodes(different)
            taken = [part[:0] if different[row] else part for row, part in enumerate(taken)]
        self._log.restore(taken)
        return self._present()

    def _rewind(self, rows: NDArray[np.intp]) -> None:
        """The start of these envs' current episodes: their first one, and then one after the other."""
        which = np.isin(np.arange(self.n_envs), rows)
        if len(rows):
            self._start_envs(which)
        for episode in range(int(self._episodes[rows].max(initial=0))):
            self._next_episodes(which & (self._episodes > episode))

    def close(self) -> None:
        self._vec.close()
