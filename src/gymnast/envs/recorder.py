"""The score of an episode as the env itself gives it, taken directly above the env and below every other wrapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from gymnast.core.errors import EnvFailure
from gymnast.envs.types import SUM_TOLERANCE

OLD_RESET = "reset returned no (observation, info), as Gymnasium wants: return observation, {}."
OLD_STEP = (
    "step returned no (observation, reward, terminated, truncated, info), as Gymnasium wants: instead of done return "
    "terminated (the task is over) and truncated (the time is up)."
)


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Adds up raw rewards, raw steps and named reward components (info["reward_components"]) of the episode."""

    frames_a_step = 1.0  # on average; more where the env repeats an action itself, and `frames` counts that

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.raw_return = 0.0
        self.frames = 0
        self.components: dict[str, float] = {}
        self.shaped_return: float | None = None  # what the learner was paid; None: the raw return
        self._step = env.step  # one attribute look-up less in every step

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self._step(action)
        try:
            self.raw_return += float(result[1])
        except (TypeError, ValueError) as error:
            raise EnvFailure(f"{self._title()}: in step, reward is {result[1]!r}, not a number.") from error
        self.frames += 1
        if len(result) != 5:
            raise EnvFailure(f"{self._title()}: {OLD_STEP}")
        components = result[4].get("reward_components")
        if components:
            for name, value in components.items():
                self.components[name] = self.components.get(name, 0.0) + float(value)
            total, reward = float(sum(components.values())), float(result[1])
            if not abs(total - reward) <= SUM_TOLERANCE * max(1.0, abs(total)):
                raise EnvFailure(
                    f"{self._title()}: in step, the reward is {reward:g}, but info['reward_components'] "
                    f"({', '.join(f'{name} {value:g}' for name, value in components.items())}) add up to {total:g}."
                )
        return result

    def watch(self, before: Callable[[], None], after: Callable[[Any], None]) -> None:
        """Has these called around every raw step: of all that a frame skip hides, too. `after` gets its result."""
        step = self._step

        def watched(action: Any) -> Any:
            before()
            result = step(action)
            after(result)
            return result

        self._step = watched

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.raw_return = 0.0
        self.frames = 0
        self.components = {}
        self.shaped_return = None
        return self.env.reset(seed=seed, options=options)

    def _title(self) -> str:
        return self.spec.id if self.spec else type(self.unwrapped).__name__


def find_recorder(env: gym.Env[Any, Any]) -> Recorder | None:
    inner = env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, Recorder):
            return inner
        inner = inner.env
    return None


def recorder_of(env: gym.Env[Any, Any]) -> Recorder:
    """The recorder inside a wrapped env."""
    recorder = find_recorder(env)
    if recorder is None:
        raise TypeError(f"{env} has no Recorder; build it with gymnast.envs.make.make_env")
    return recorder
