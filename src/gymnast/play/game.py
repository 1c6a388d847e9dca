"""One env as evaluation makes it, which nothing resets but its user: for play by hand, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.make import EnvMaker
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites import find_spec, suite_of
from gymnast.envs.suites.base import draws
from gymnast.envs.tasks import TaskVecEnv, task_spaces
from gymnast.envs.types import EpisodeRecord, Picture
from gymnast.play.stage import DEFAULT_FPS, picture_of

if TYPE_CHECKING:
    from gymnast.config import EnvConfig, RunConfig
    from gymnast.envs.types import StepBatch, VecEnv


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

    `task`: of a run with several; None: the first.
    """

    def __init__(self, config: RunConfig, task: str | None = None) -> None:
        number = config.task_number(task)
        self.config: EnvConfig = config.eval_env if number is None else config.task_envs[number]
        self.task = number
        self.why_no_picture: str | None = None
        self.turned = suite_of(self.config.id).turned(self.config.id)
        self.env = self._made()
        self.engine = SoloEngine(self.env, self.config.id, self.config.action_masks)
        self.vec: VecEnv = self.engine
        if number is not None:
            self.vec = TaskVecEnv(task_spaces(config), {number: self.engine})
        self.recorder = recorder_of(self.env)
        self.before_frame: Callable[[], None] | None = None  # called around each raw step of the env
        self.after_frame: Callable[[], None] | None = None
        self.recorder.watch(
            lambda: self.before_frame and self.before_frame(), lambda: self.after_frame and self.after_frame()
        )
        self._parts: dict[str, float] = {}
        self._total = 0.0

    def _made(self) -> gym.Env[Any, Any]:
        if not draws(find_spec(self.config.id)):
            self.why_no_picture = f"{self.config.id} draws no pictures."
            return EnvMaker(self.config, "eval")()
        try:
            return EnvMaker(self.config, "eval", None, "rgb_array")()
        except UserError as error:  # a machine without OpenGL can play all the same
            if "not watched" not in str(error):
                raise
            self.why_no_picture = str(error)
            return EnvMaker(self.config, "eval")()

    @property
    def fps(self) -> float:
        """Raw env steps a second."""
        return float(self.env.metadata.get("render_fps") or DEFAULT_FPS)

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
        self._total, self._parts = 0.0, {}
        return self.vec.reset(seed)

    def step(self, action: Any) -> StepBatch:
        """`action`: as the agent's vector takes it, of this one env."""
        self._total, self._parts = self.recorder.raw_return, dict(self.recorder.components)
        return self.vec.step(np.asarray(action)[np.newaxis])

    @property
    def reward(self) -> float:
        """Of the last step, as the env gave it."""
        return self.recorder.raw_return - self._total

    @property
    def components(self) -> dict[str, float]:
        """Named parts of the last step's reward."""
        return {name: value - self._parts.get(name, 0.0) for name, value in self.recorder.components.items()}

    def picture(self) -> Picture | None:
        return None if self.why_no_picture else picture_of(self.env)

    def close(self) -> None:
        self.engine.close()
