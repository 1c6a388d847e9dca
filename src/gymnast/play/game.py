"""One env as evaluation makes it, which nothing resets but its user: for play by hand, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.make import EnvMaker
from gymnast.envs.recorder import recorder_of
from gymnast.envs.snapshot import Snapshot, put_back, take
from gymnast.envs.suites import find_spec, suite_of
from gymnast.envs.suites.base import draws
from gymnast.envs.tasks import TaskVecEnv, task_spaces
from gymnast.envs.types import EpisodeRecord, Obs, Picture, StepBatch
from gymnast.envs.wrappers.base import RandomWrapper
from gymnast.envs.wrappers.frame_stack import FrameStack
from gymnast.play.stage import DEFAULT_FPS, picture_of

if TYPE_CHECKING:
    from gymnast.config import EnvConfig, RunConfig
    from gymnast.envs.types import VecEnv
    from gymnast.play.opponent import Opponent


class Kept(NamedTuple):
    """An episode that can be gone on with from here, again and again."""

    env: Snapshot
    engine: tuple[int, bool, Any]  # decisions, whether it is over, and what it showed last
    batch: StepBatch


class SoloEngine(SyncEngine):
    """One env, reset with the very seed that is given. After its end it shows its last observation."""

    engine = "solo"

    def __init__(self, env: gym.Env[Any, Any], name: str, action_masks: bool) -> None:
        super().__init__(lambda: env, 1, name=name, action_masks=action_masks)
        self.over = False
        self._last: tuple[Any, dict[str, Any]] = None, {}

    def reset(self, seed: int) -> StepBatch:
        self.over = False
        return super().reset(seed)

    def step(self, actions: NDArray[Any]) -> StepBatch:
        self._log.clear()  # nobody resumes from here, and a snapshot may have moved the env
        return super().step(actions)

    def raw_obs(self, leaves: Obs) -> Any:
        """Observations [T, ...] as the env itself shows them."""
        return self._layout.to_raw(leaves)

    def raw_actions(self, actions: NDArray[Any]) -> Any:
        """Actions [T, ...] as the env itself takes them."""
        return np.asarray(self._actions.rows(self._actions.batch(actions, len(actions))))

    def place(self) -> tuple[int, bool, Any]:
        return int(self._lengths[0]), self.over, self._last

    def put(self, place: tuple[int, bool, Any]) -> None:
        self._lengths[0], self.over, self._last = place

    def _seed_of(self, row: int) -> int:
        return self._seed

    def _end_episode(
        self, row: int, observation: Any, terminated: bool, info: dict[str, Any], episodes: list[EpisodeRecord]
    ) -> tuple[Any, dict[str, Any]]:
        self.over, self._last = True, (observation, info)
        return super()._end_episode(row, observation, terminated, info, episodes)

    def _start_episode(self, row: int) -> tuple[Any, dict[str, Any]]:
        return self._last if self.over else super()._start_episode(row)


class Game:
    """An env, its pictures and what it says of a step. `vec` is what an agent is built for: a vector of this one env.

    `task`: of a run with several; None: the first. `pictures` False: it draws none.
    """

    def __init__(self, config: RunConfig, task: str | None = None, pictures: bool = True) -> None:
        number = config.task_number(task)
        self.config: EnvConfig = config.eval_env if number is None else config.task_envs[number]
        self.task = number
        self.why_no_picture: str | None = None
        self.suite = suite_of(self.config.id)
        self.second_player = self.suite.second_player(self.config.id)
        self.turned = self.suite.turned(self.config.id)
        self.env = self._made(pictures)
        self.engine = SoloEngine(self.env, self.config.id, self.config.action_masks)
        self.vec: VecEnv = self.engine
        if number is not None:
            self.vec = TaskVecEnv(task_spaces(config), {number: self.engine})
        self._base = self.env.unwrapped
        self.recorder = recorder_of(self.env)
        self.opponent: Opponent | None = None  # who plays in the same game
        self.before_frame: Callable[[], None] | None = None  # called around each raw step of the env
        self.after_frame: Callable[[], None] | None = None
        self.recorder.watch(self._before, self._after)
        self.reward = 0.0  # of the last step, as the env gave it
        self.components: dict[str, float] = {}  # named parts of it
        self._batch: StepBatch = self.vec.reset(0)
        self.has_copies = self.save() is not None
        self.learner_end = self.suite.learner_end(self.env.unwrapped, self.config.kwargs)

    def _made(self, pictures: bool) -> gym.Env[Any, Any]:
        if not pictures or not draws(find_spec(self.config.id)):
            self.why_no_picture = f"{self.config.id} draws no pictures."
            return EnvMaker(self.config, "eval")()
        try:
            env = EnvMaker(self.config, "eval", None, "rgb_array")()
            self.suite.draw_quickly(env.unwrapped)
            return env
        except UserError as error:  # a machine without OpenGL can play all the same
            env = EnvMaker(self.config, "eval")()
            self.why_no_picture = str(error)
            return env

    @property
    def own_leaves(self) -> dict[str, str]:
        """Of each leaf of the env's observation: what it is called in the vector that the agent sees."""
        tasks = getattr(self.vec, "tasks", None)
        names = list(self.engine.obs_space)
        return dict(zip(names, names if tasks is None else tasks.obs[self.task], strict=True))

    @property
    def fps(self) -> float:
        """Raw env steps a second. An env that repeats an action itself makes several frames of each."""
        return float(self.env.metadata.get("render_fps") or DEFAULT_FPS) / self.recorder.frames_a_step

    def _before(self) -> None:
        if self.before_frame is not None:
            self.before_frame()

    def _after(self, result: Any) -> None:
        self.reward += float(result[1])
        for name, value in self.suite.reward_parts(self._base, result[4]).items():
            self.components[name] = self.components.get(name, 0.0) + float(value)
        if self.after_frame is not None:
            self.after_frame()

    @property
    def stack(self) -> int:
        """Steps whose pictures an observation has, oldest first; 1: only its own (or stacks of stacks: not known)."""
        found = [getattr(self.suite.task(self.config.kwargs), "stack", 1)]
        layer = self.env
        while isinstance(layer, gym.Wrapper):
            if isinstance(layer, FrameStack):
                found.append(layer.n)
            layer = layer.env
        deep = [n for n in found if n > 1]
        return deep[0] if len(deep) == 1 else 1

    @property
    def variables(self) -> dict[str, float]:
        """What the game counts now."""
        return self.suite.variables(self._base)

    @property
    def is_shaped(self) -> bool:
        """Whether the env itself names what the learner is paid in addition to the score."""
        return bool(self.config.shaping and self.suite.shaping_parts(self.config.id, self.config.kwargs))

    @property
    def over(self) -> bool:
        return self.engine.over

    @property
    def frames(self) -> int:
        """Raw steps of this episode."""
        return self.recorder.frames

    @property
    def total(self) -> float:
        return self.recorder.raw_return

    def reset(self, seed: int) -> StepBatch:
        self.reward, self.components = 0.0, {}
        with nullcontext() if self.opponent is None else self.opponent.resetting(seed):
            self._batch = self.vec.reset(seed)
        return self._batch

    def step(self, action: Any) -> StepBatch:
        """`action`: as the agent's vector takes it, of this one env."""
        self.reward, self.components = 0.0, {}
        before = dict(self.recorder.components)
        with nullcontext() if self.opponent is None else self.opponent.stepping():
            self._batch = self.vec.step(np.asarray(action)[np.newaxis])
        self.components |= {name: value - before.get(name, 0.0) for name, value in self.recorder.components.items()}
        return self._batch

    def save(self) -> Kept | None:
        """None: this env has no copies, and is brought to a moment by its seed and its actions."""
        snapshot = take(self.env, self.suite)
        return None if snapshot is None else Kept(snapshot, self.engine.place(), _copy(self._batch))

    def load(self, kept: Kept) -> StepBatch:
        put_back(self.env, self.suite, kept.env)
        self.engine.put(kept.engine)
        self._batch = _copy(kept.batch)
        return self._batch

    def renew_luck(self, seed: int) -> None:
        """From here on the env and its wrappers draw other random numbers than the episode's seed gives them."""
        layer = self.env
        while isinstance(layer, gym.Wrapper):
            if isinstance(layer, RandomWrapper):
                layer.seed(seed)
            layer = layer.env
        self.suite.renew_luck(layer, seed)

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Steps in here are repetitions: nobody is called around them."""
        watchers = self.before_frame, self.after_frame
        self.before_frame = self.after_frame = None
        try:
            yield
        finally:
            self.before_frame, self.after_frame = watchers

    def picture(self) -> Picture | None:
        return None if self.why_no_picture else picture_of(self.env)

    def close(self) -> None:
        self.engine.close()
        if self.opponent is not None:
            self.opponent.close()


def _copy(batch: StepBatch) -> StepBatch:
    """The engine writes its next step into the same arrays."""
    return StepBatch(
        {key: rows.copy() for key, rows in batch.obs.items()},
        batch.reward.copy(),
        batch.terminated.copy(),
        batch.truncated.copy(),
        {key: rows.copy() for key, rows in batch.final_obs.items()},
        [],
        None if batch.mask is None else batch.mask.copy(),
    )
