"""A model of one task of a run that has several: it acts and is evaluated, and is not trained on."""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray

from gymnast.api.arguments import WrongArgument
from gymnast.api.model import Model, model_class
from gymnast.api.sources import EnvSource, Spaces
from gymnast.config import RunConfig
from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.tasks import TaskSpaces
from gymnast.envs.spaces import mask_size
from gymnast.envs.tasks import TaskVecEnv, joint_action_space, joint_obs, joint_obs_space, own_actions, task_spaces
from gymnast.envs.types import Obs, VecEnv
from gymnast.runs.checkpoint import Checkpoint
from gymnast.runs.saved_agent import SavedAgent


class HasTasks:
    """The spaces that the agent of all tasks is built for."""

    def __init__(self, tasks: TaskSpaces) -> None:
        self.tasks, self.obs_space, self.action_space = tasks, joint_obs_space(tasks), joint_action_space(tasks)


class OfTask(Model):
    """What is different where the agent knows other tasks, too."""

    task: str
    _number: int
    _tasks: TaskSpaces

    @classmethod
    def of(cls, saved: Checkpoint, config: RunConfig, task: str, verbose: int, runs_dir: Any) -> Self:
        number = [one.name for one in config.tasks].index(task)
        alone, tasks = config.of_task(number), task_spaces(config)
        source = EnvSource(alone.env.id)
        model = cls.__new__(cls)
        model.task, model._number, model._tasks = task, number, tasks
        model._begin(alone, source, Spaces.of(alone.env, source), verbose, runs_dir, saved=saved)
        model._loaded = SavedAgent.build(config, HasTasks(tasks), saved.agent)
        return model

    def _build(self, source: EnvSource) -> NoReturn:
        raise UserError(
            f"this model is one task, {self.task}, of a run with several: it predicts and is evaluated. Train on with "
            "`gymnast resume`, which takes all tasks."
        )

    def _seen(self, batch: Obs) -> Obs:
        return joint_obs(self._tasks, self._number, batch)

    def _for_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        return super()._for_env(own_actions(self._tasks, self._number, actions))

    def _checked_mask(self, action_masks: Any, count: int) -> torch.Tensor:
        """Actions that only other tasks have are not allowed in any case."""
        mask, own = np.array(action_masks, bool), mask_size(self.action_space)
        if mask.size != count * own:
            raise WrongArgument(
                f"predict(action_masks=...): has shape {mask.shape}; {self.task} has {own} for each observation."
            )
        missing = self.agent.head.n_mask - own
        return super()._checked_mask(np.pad(mask.reshape(count, own), ((0, 0), (0, missing))), count)

    def seen_by_agent(self, env: VecEnv) -> VecEnv:
        return TaskVecEnv(self._tasks, {self._number: env})


@cache
def of_task(algo: str) -> type[OfTask]:
    """The class of an algorithm's models that are one task of several."""
    kind = model_class(algo)
    return type(kind.__name__, (OfTask, kind), {"__doc__": kind.__doc__, "__module__": "gymnast"})


def checked_task(ref: Any, config: RunConfig, task: str | None) -> str:
    """The task that load() was asked for."""
    names = [one.name for one in config.tasks]
    if not names:
        raise WrongArgument(f"load(task={task!r}): {ref} has no tasks; leave it out.")
    if task not in names:
        asked = f"load(task={task!r}): unknown.{did_you_mean(str(task), names)} " if task is not None else ""
        known = " or ".join(f"task={name!r}" for name in names)
        raise WrongArgument(f"{asked}{ref} has several tasks: load one of them by {known}.")
    return task
