"""Callbacks of learn(): functions of a row of metrics, and objects in the shape of stable-baselines3's callbacks.

An object is called when stable-baselines3 calls it: `init_callback(model)` and `on_training_start` before the first
step, `on_rollout_start`, `on_step` after every step of the vector of envs, `on_rollout_end` after the rollout's last
step and before it is learned from, `on_training_end`. Its `locals` have `new_obs`, `rewards`, `dones`, `infos` and
`actions` of that step, and learn()'s arguments. A callback looks; what it may do is stop training: where it returns
False, no further step is made, the unfinished rollout is not learned from, and learn() returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gymnast.api.vec_env import as_step
from gymnast.core.errors import UserError
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.rl.collector import Lap
from gymnast.rl.rollout import Rollout
from gymnast.training.rows import Observer, Row

if TYPE_CHECKING:
    from gymnast.api.model import Model


class Callbacks:
    """What was given to learn(), by what it is called with. As an observer of rows it asks for the end by False."""

    def __init__(self, model: Model, given: Any, arguments: dict[str, Any]) -> None:
        self.rows: list[Observer] = []
        self.objects: list[Any] = []  # events
        self.functions: list[Callable[[dict[str, Any], dict[str, Any]], Any]] = []  # (locals, globals), every step
        self.locals: dict[str, Any] = {**arguments, "self": model, "callback": given}
        self.steps = 0  # of the rollout under way, summed over envs
        self.stopped = False
        self._model, self._session = model, model.session
        self._began_at = -1  # env steps when the rollout under way began
        self._sort(given)

    def _sort(self, given: Any) -> None:
        if isinstance(given, list | tuple):
            for one in given:
                self._sort(one)
        elif hasattr(given, "on_step") and not isinstance(given, type):
            self.objects.append(given)
        elif given is not None:
            (self.functions if takes(given, 2) and not takes(given, 1) else self.rows).append(checked(given))

    @property
    def in_rollout(self) -> int:
        """Env steps that the run's own count lacks, because their rollout is not complete."""
        return self.steps if self._session.counters.env_steps == self._began_at else 0

    def __call__(self, row: Row) -> bool:
        """A row of metrics, to everyone who looks at rows; False: training shall end."""
        answers = [observer(dict(row)) for observer in self.rows]
        return not self.stopped and not any(answer is False for answer in answers)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Events come while this lasts."""
        if not self.objects and not self.functions:
            yield
            return
        collector, vec_env = self._session.collector, self._model.own_env()
        inner = collector.env
        for one in self.objects:
            one.init_callback(self._model)
        for one in self.objects:
            one.on_training_start(self.locals, {})
        fill = collector.fill

        def filled(rollout: Rollout, lap: Lap) -> list[EpisodeRecord]:
            episodes = fill(rollout, lap)
            if not self.stopped and not collector.cut:
                for one in self.objects:
                    one.on_rollout_end()
            return episodes

        collector.env, collector.fill, vec_env.busy = Watched(inner, self), filled, True  # type: ignore[method-assign]
        try:
            yield
        finally:
            if self._session.collector.cut:  # steps that were made, though nothing was learned from them
                self._session.counters.env_steps += self.in_rollout
            collector.env, vec_env.busy, self.steps = inner, False, 0
            del collector.fill  # the class has its own
        for one in self.objects:
            one.on_training_end()

    def before_step(self) -> None:
        if self._session.counters.env_steps != self._began_at:
            self._began_at, self.steps = self._session.counters.env_steps, 0
            if not self.stopped:
                for one in self.objects:
                    one.on_rollout_start()

    def after_step(self, actions: NDArray[Any], now: StepBatch) -> None:
        self.steps += len(now.reward)
        if self.stopped:
            return
        observations, rewards, dones, infos = as_step(now, self._model.spaces)
        self.locals |= {"new_obs": observations, "rewards": rewards, "dones": dones, "infos": infos}
        self.locals |= {"actions": np.array(actions), "n_steps": self.steps // len(now.reward)}
        answers = [function(self.locals, {}) for function in self.functions]
        for one in self.objects:
            if hasattr(one, "update_locals"):
                one.update_locals(self.locals)
            answers.append(one.on_step())
        if not all(map(bool, answers)):
            self.stopped = True
            self._session.pulse.cut_at = 0.0  # no further step is made, and what is half full is not learned from
            self._session.rows.next = 0  # a row comes, and the run ends with it


class Watched:
    """A run's envs, which report every step to callbacks."""

    def __init__(self, inner: VecEnv, callbacks: Callbacks) -> None:
        self._inner, self._callbacks = inner, callbacks

    def step(self, actions: NDArray[Any]) -> StepBatch:
        self._callbacks.before_step()
        now = self._inner.step(actions)
        self._callbacks.after_step(actions, now)
        return now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def takes(function: Any, count: int) -> bool:
    try:
        inspect.signature(function).bind(*[{}] * count)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not say what it takes
        return count == 1
    return True


def checked(function: Any) -> Any:
    if isinstance(function, type) or not callable(function) or not (takes(function, 1) or takes(function, 2)):
        raise UserError(
            f"callback: {function!r} is neither a function of one row of metrics (lambda row: print(row)), nor one of "
            "(locals, globals), nor an object with stable-baselines3's on_step()."
        )
    return function
