"""Several tasks as one vector: one engine a task, their rows one after the other, always in the same order.

Tasks with the same spaces share the leaves of the observation; otherwise each has leaves of its own, which are zero in
the rows of the others. A further leaf says which task a row is of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.core.tasks import TASK, TaskSpaces
from gymnast.envs.make import Role, make_env, make_training_vec, make_vec
from gymnast.envs.shaping.components import TRUE_REWARD
from gymnast.envs.spaces import ActionLayout, ObsLayout
from gymnast.envs.types import Obs, ObsSpace, StepBatch, VecEnv

if TYPE_CHECKING:
    from gymnast.config import RunConfig

Spaces = tuple[ObsSpace, gym.Space[Any]]  # of one task's env, as the learner sees them


class TaskVecEnv:
    """The rows of some tasks, in the joint spaces of all of them. `parts`: the engine of each task that has rows."""

    def __init__(self, tasks: TaskSpaces, parts: Mapping[int, VecEnv]) -> None:
        self.tasks, self._parts = tasks, dict(parts)
        self.obs_space, self.action_space = joint_obs_space(tasks), joint_action_space(tasks)
        self.engine = "+".join(dict.fromkeys(part.engine for part in parts.values()))
        self.exact_resume = all(part.exact_resume for part in parts.values())
        labels = [part.action_labels for part in parts.values()]
        self.action_labels: list[str] | None = labels[0] if all(one == labels[0] for one in labels) else None
        ends = np.cumsum([part.n_envs for part in parts.values()]).tolist()
        self._rows = {
            number: slice(end - part.n_envs, end) for (number, part), end in zip(parts.items(), ends, strict=True)
        }
        self.n_envs = ends[-1]
        self._obs, self._final_obs = self._leaves(), self._leaves()
        self._reward = np.zeros(self.n_envs, np.float32)
        self._terminated, self._truncated = np.zeros(self.n_envs, np.bool_), np.zeros(self.n_envs, np.bool_)
        self._mask: NDArray[np.bool_] | None = None

    def reset(self, seed: int) -> StepBatch:
        """The first task is seeded as it would be alone, the others apart from it."""
        return self._join(
            {n: part.reset(derive_seed(seed, "task", n) if n else seed) for n, part in self._parts.items()}
        )

    def step(self, actions: NDArray[Any]) -> StepBatch:
        own = {n: own_actions(self.tasks, n, actions[self._rows[n]]) for n in self._parts}
        return self._join({n: part.step(own[n]) for n, part in self._parts.items()})

    def save_state(self) -> dict[str, NDArray[Any]]:
        return {f"{n}/{key}": array for n, part in self._parts.items() for key, array in part.save_state().items()}

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        found = {}
        for n, part in self._parts.items():
            own = {key.removeprefix(f"{n}/"): array for key, array in state.items() if key.startswith(f"{n}/")}
            found[n] = part.load_state(own)
        return self._join(found)

    def close(self) -> None:
        for part in self._parts.values():
            part.close()

    def _leaves(self) -> Obs:
        leaves = {key: np.zeros((self.n_envs, *(s.shape or ())), s.dtype) for key, s in self.obs_space.items()}
        if TASK in leaves and len(self.tasks.names) > 1:
            for number, rows in self._rows.items():
                leaves[TASK][rows] = number
        return leaves

    def _join(self, found: Mapping[int, StepBatch]) -> StepBatch:
        """One batch in this vector's own buffers."""
        episodes = []
        for number, batch in found.items():
            rows, name = self._rows[number], self.tasks.names[number]
            for key, own in zip(self.tasks.obs[number], batch.obs, strict=True):
                self._obs[key][rows] = batch.obs[own]
                if batch.terminated.any() or batch.truncated.any():
                    self._final_obs[key][rows] = batch.final_obs[own]
            self._reward[rows] = batch.reward
            self._terminated[rows], self._truncated[rows] = batch.terminated, batch.truncated
            if batch.mask is not None:
                if self._mask is None:
                    self._mask = np.zeros((self.n_envs, _widest(self.tasks)), np.bool_)
                self._mask[rows, : batch.mask.shape[1]] = batch.mask
            for record in batch.episodes:
                record.env, record.task = record.env + rows.start, name
                episodes.append(record)
        return StepBatch(
            self._obs,
            self._reward,
            self._terminated,
            self._truncated,
            self._final_obs,
            episodes,
            self._mask,
            self._components(found),
        )

    def _components(self, found: Mapping[int, StepBatch]) -> dict[str, NDArray[np.float64]] | None:
        """Parts of the rewards; a task that is not shaped has its env's own."""
        if all(batch.components is None for batch in found.values()):
            return None
        joint: dict[str, NDArray[np.float64]] = {}
        for number, batch in found.items():
            own = {TRUE_REWARD: batch.reward.astype(np.float64)} if batch.components is None else batch.components
            for name, values in own.items():
                joint.setdefault(name, np.zeros(self.n_envs))[self._rows[number]] = values
        return joint


def _widest(tasks: TaskSpaces) -> int:
    from gymnast.envs.spaces import mask_size

    return max(map(mask_size, tasks.actions))


def join_spaces(names: Sequence[str], spaces: Sequence[Spaces]) -> TaskSpaces:
    """Refuses, in one line, action spaces that no head can serve together."""
    tasks = TaskSpaces(tuple(names), tuple(obs for obs, _ in spaces), tuple(action for _, action in spaces))
    if tasks.alike:
        if TASK in tasks.obs[0] and len(names) > 1:
            raise UserError(f"tasks: the observation has an entry {TASK!r} already; rename it with a wrapper.")
        return tasks
    if not all(isinstance(action, gym.spaces.Discrete) for action in tasks.actions):
        for name, action in zip(names, tasks.actions, strict=True):
            if not isinstance(action, gym.spaces.Box):
                kinds = ", ".join(f"{n} {type(a).__name__}" for n, a in zip(names, tasks.actions, strict=True))
                raise UserError(
                    f"tasks: actions are {kinds}; tasks with different spaces need all Discrete or all Box actions. "
                    f"Train {name} in a run of its own, or change its actions by a wrapper."
                )
            if not action.is_bounded():
                raise UserError(
                    f"tasks: {name} has actions without bounds, {action}, and those of several tasks are scaled to "
                    "them. Bound them by a wrapper."
                )
    renamed = [
        {f"{name}/{leaf}": space for leaf, space in obs.items()} for name, obs in zip(names, tasks.obs, strict=True)
    ]
    return TaskSpaces(tasks.names, tuple(renamed), tasks.actions)


def joint_obs_space(tasks: TaskSpaces) -> ObsSpace:
    """A run with one task sees just what it would see without `tasks`."""
    joint = {leaf: space for own in tasks.obs for leaf, space in own.items()}
    return joint if len(tasks.names) == 1 else joint | {TASK: gym.spaces.Discrete(len(tasks.names))}


def joint_action_space(tasks: TaskSpaces) -> gym.Space[Any]:
    """The largest of them; a Box of different sizes or bounds is -1..1 here."""
    first = tasks.actions[0]
    if all(action == first for action in tasks.actions):
        return first
    if isinstance(first, gym.spaces.Discrete):
        return gym.spaces.Discrete(max(int(action.n) for action in tasks.actions if isinstance(action, type(first))))
    return gym.spaces.Box(-1.0, 1.0, (max(math.prod(action.shape or ()) for action in tasks.actions),), np.float32)


def own_actions(tasks: TaskSpaces, number: int, actions: NDArray[Any]) -> NDArray[Any]:
    """Actions as a task's env takes them: a joint Box is -1..1 in every component that the task has."""
    space = tasks.actions[number]
    if isinstance(space, gym.spaces.Discrete) or all(other == space for other in tasks.actions):
        return actions
    assert isinstance(space, gym.spaces.Box)
    size = math.prod(space.shape)
    low, high = space.low.ravel(), space.high.ravel()
    scaled = low + (actions[:, :size] + 1) * 0.5 * (high - low)
    return np.clip(scaled, low, high).reshape(-1, *space.shape).astype(space.dtype)


def joint_obs(tasks: TaskSpaces, number: int, own: Obs) -> Obs:
    """Observations of a task's env as the agent of all tasks sees them."""
    count = len(next(iter(own.values())))
    leaves = {key: np.zeros((count, *(s.shape or ())), s.dtype) for key, s in joint_obs_space(tasks).items()}
    leaves |= dict(zip(tasks.obs[number], own.values(), strict=True))
    if len(tasks.names) > 1:
        leaves[TASK][:] = number
    return leaves


def make_training_tasks(config: RunConfig) -> TaskVecEnv:
    """What training steps: all tasks of a config, each in its share of the envs."""
    parts: dict[int, VecEnv] = {}
    try:
        for number in range(len(config.tasks)):
            parts[number] = make_training_vec(config.of_task(number))
        spaces = [(part.obs_space, part.action_space) for part in parts.values()]
        return TaskVecEnv(join_spaces([task.name for task in config.tasks], spaces), parts)
    except BaseException:  # Ctrl-C too: what was opened has processes
        for part in parts.values():
            part.close()
        raise


def task_spaces(config: RunConfig) -> TaskSpaces:
    """Of a config's tasks, without their engines: one env of each is made and closed."""
    found: list[Spaces] = []
    for cfg in config.task_envs:
        env = make_env(cfg, "eval")
        found.append((ObsLayout(env.observation_space).obs_space, ActionLayout(env.action_space).space))
        env.close()
    return join_spaces([task.name for task in config.tasks], found)


def make_task_vec(
    config: RunConfig, number: int, n_envs: int, role: Role, tasks: TaskSpaces, threads: int | None = None
) -> TaskVecEnv:
    """Envs of one task alone, as the agent of all tasks sees them."""
    return TaskVecEnv(tasks, {number: make_vec(config.task_envs[number], n_envs, role, threads=threads)})


class TaskEnvs:
    """Envs of every task in which agents are scored, a vector each."""

    def __init__(self, config: RunConfig, tasks: TaskSpaces, threads: int | None = None) -> None:
        self.tasks, self.obs_space, self.action_space = tasks, joint_obs_space(tasks), joint_action_space(tasks)
        self.vectors = {
            name: make_task_vec(config, number, config.eval_n_envs, "eval", tasks, threads)
            for number, name in enumerate(tasks.names)
        }

    def close(self) -> None:
        for vector in self.vectors.values():
            vector.close()
