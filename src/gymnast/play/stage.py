"""Plain envs that are watched: every picture of an episode, its last one included, with all that belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from gymnast.core.errors import UserError
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.make import EnvMaker
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites import missing_package
from gymnast.envs.tasks import TaskVecEnv, task_spaces
from gymnast.envs.types import NO_PICTURE, Picture
from gymnast.play.keys import shown_name

if TYPE_CHECKING:
    from gymnast.agent.agent import Agent
    from gymnast.config import RunConfig
    from gymnast.envs.types import Box, VecEnv
    from gymnast.play.step_table import Labels

DEFAULT_FPS = 30.0  # of an env that does not say


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Looks at one episode after its reset and every step. The engine resets an env as soon as it ends."""

    def __init__(self, env: gym.Env[Any, Any], find: Callable[[gym.Env[Any, Any]], list[Box]] | None = None) -> None:
        super().__init__(env)
        self._find = find
        self._recorder = recorder_of(env)
        self.begin()

    def begin(self) -> None:
        """The next reset starts the episode that is watched."""
        self.ended = False
        self.picture = NO_PICTURE
        self.boxes: list[Box] = []
        self.reward = self.total = 0.0  # of the last step, and of the episode so far, as the env gave them
        self.frames = 0
        self.components: dict[str, float] = {}  # of the last step's reward
        self._parts: dict[str, float] = {}  # of the total

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        self._look()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self._look()
        self.ended = self.ended or bool(result[2] or result[3])
        return result

    def _look(self) -> None:
        if self.ended:
            return
        said = self._recorder
        self.picture = picture_of(self.env)
        self.boxes = [] if self._find is None else self._find(self.env)
        self.reward = said.raw_return - self.total
        self.components = {name: value - self._parts.get(name, 0.0) for name, value in said.components.items()}
        self.total, self.frames, self._parts = said.raw_return, said.frames, dict(said.components)


def picture_of(env: gym.Env[Any, Any]) -> Picture:
    """What an env draws now, as colours."""
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    try:
        shown: Any = env.render()
    except gym.error.DependencyNotInstalled as error:
        raise UserError(missing_package(name, env.spec, error)) from error
    if not isinstance(shown, np.ndarray) or shown.ndim not in (2, 3):
        raise UserError(f"{name} draws no pictures: it can be trained and scored, not watched.")
    if shown.dtype.kind == "f":
        shown = np.clip(shown * 255, 0, 255)
    colours = shown if shown.ndim == 3 else np.repeat(shown[:, :, None], 3, axis=2)
    return np.ascontiguousarray(colours[:, :, :3], dtype=np.uint8)


class Stage:
    """As many plain envs as episodes, made as evaluation makes them; each is watched for its first episode.

    `task`: of a run with several; None: the first. `objects`: also where the objects are in the pictures.
    """

    def __init__(self, config: RunConfig, episodes: int, task: str | None = None, objects: bool = False) -> None:
        number = config.task_number(task)
        self.config = cfg = config.eval_env if number is None else config.task_envs[number]
        maker = EnvMaker(cfg, "eval", None, "rgb_array")
        self.turned = maker.suite.turned(cfg.id)
        find = maker.suite.objects_of(cfg.id, cfg.kwargs) if objects else None
        self.envs = [Watched(maker(), find) for _ in range(episodes)]
        ready = iter(self.envs)
        self.engine: VecEnv = SyncEngine(lambda: next(ready), episodes, name=cfg.id, action_masks=cfg.action_masks)
        self.task = number
        if number is not None:
            self.engine = TaskVecEnv(task_spaces(config), {number: self.engine})

    def labels(self, agent: Agent) -> Labels:
        """What an agent's actions are called, by the direction in which people see them move."""
        from gymnast.play.step_table import labels_of  # imports torch

        labels = labels_of(agent, self.config, self.engine.action_labels, self.task)
        return replace(labels, actions=[shown_name(name, self.turned) for name in labels.actions])

    @property
    def fps(self) -> float:
        """Frames a second, as recorders count them."""
        return float(self.envs[0].metadata.get("render_fps") or DEFAULT_FPS)
