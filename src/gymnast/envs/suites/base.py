"""What a family of envs says for itself. Imports no gymnasium: a config is checked without it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ValidationError

from gymnast.config.fields import Section
from gymnast.config.files import ANY_ENV
from gymnast.config.problems import explain_errors
from gymnast.core.errors import UserError, package_problem

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    from gymnast.envs.types import Box


class Suite:
    """A family of envs; SUITES says how its ids begin. This one makes what is registered with Gymnasium as it is.

    A suite that says nothing else is one of plain Gymnasium envs. `make` is overridden where there is more to do.
    """

    module: ClassVar[str | None] = None  # importing it registers the ids; None: importing the suite does
    extra: ClassVar[str | None] = None  # of pyproject.toml, which installs what the envs need
    Task: ClassVar[type[Section] | None] = None  # what env.kwargs may hold; None: what the env's constructor takes
    defaults: ClassVar[str] = ANY_ENV  # the shared settings of an env of this family that has no preset
    limit_unit: ClassVar[str] = "steps"  # of env.max_episode_steps
    default_limit: ClassVar[int | None] = None  # where neither the registration nor the config sets one
    is_limited: ClassVar[bool] = False  # `make` sets a time limit where none is registered
    one_per_process: ClassVar[bool] = False  # two envs in one process would disturb each other

    def make(
        self, spec: EnvSpec, task: Any, limit: int | None, render_mode: str | None, training: bool
    ) -> gym.Env[Any, Any]:
        """One env. `limit`: of raw steps, instead of the registered one. `training`: with what is for the learner only.

        `task`: the checked Task; where there is none, env.kwargs as they are.
        """
        import gymnasium as gym

        kwargs = task.model_dump() if isinstance(task, Section) else dict(task)
        # no banner on standard output, which may be a JSON line's; no window where pictures only are wanted
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        if render_mode == "rgb_array" and not os.environ.get("DISPLAY"):
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        if render_mode is not None:
            if not draws(spec):
                raise UserError(f"{spec.id} draws no pictures: it can be trained and scored, not watched.")
            kwargs["render_mode"] = render_mode
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is out of date.*")  # an older version is the user's choice
            return gym.make(spec, max_episode_steps=limit, disable_env_checker=True, **kwargs)

    def is_slow(self, env_id: str) -> bool:
        """Whether a step takes so long (a third of a millisecond) that processes of their own are worth their cost."""
        return False

    def new_name(self, spec: EnvSpec) -> str | None:
        """The id to use instead of one that `module` registers too, with the reason; None: use it."""
        return None

    def action_labels(self, kwargs: Mapping[str, Any]) -> list[str] | None:
        """What env.kwargs say that the actions are; None: nothing."""
        return None

    def observation_labels(self, kwargs: Mapping[str, Any]) -> list[str] | None:
        """What env.kwargs say that the components of the observation are; None: nothing."""
        return None

    def objects_of(self, env_id: str, kwargs: Mapping[str, Any]) -> Callable[[gym.Env[Any, Any]], list[Box]]:
        """Finds what is in an env's picture, for people to see."""
        raise UserError(f"--objects: {env_id} says nothing of objects; Atari games do, by a table of RAM cells.")

    def shaping_parts(self, env_id: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
        """What `env.shaping` can weigh that the env itself reports in info["shaping"], and what each part is."""
        return {}

    def learner_end(self, game: gym.Env[Any, Any], kwargs: Mapping[str, Any]) -> str | None:
        """What ends an episode in training but not in evaluation, and the setting that says so; None: nothing does."""
        return None

    def turned(self, env_id: str) -> Mapping[str, str]:
        """Directions in which the picture shows what actions of other names move: {"right": "up"}."""
        return {}

    def second_player(self, env_id: str) -> Callable[[gym.Env[Any, Any]], Any] | None:
        """Makes what a second player moves with, `move(up, down)` before every frame; None: this game has one side."""
        return None

    def connect(self, host: gym.Env[Any, Any], guest: gym.Env[Any, Any]) -> Callable[[], None]:
        """Has two envs play in one game from their next episodes on, every step of both at the same time. Returns what
        ends both, wherever they are: if one of them fails, the other would wait for it for ever."""
        raise UserError(f"{host.spec.id if host.spec else host}: two players cannot play it against each other.")

    def reward_parts(self, game: gym.Env[Any, Any], info: Mapping[str, Any]) -> Mapping[str, float]:
        """What a step's info says that its reward is made of, for people to see; nothing: it does not say."""
        return info.get("reward_components") or {}

    def variables(self, game: gym.Env[Any, Any]) -> dict[str, float]:
        """What a game counts, as it is now, for people to see: health, lives, places; nothing: it does not say."""
        return {}

    def for_people(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What is set differently in env.kwargs where somebody plays and there is no trained agent, which would see
        it."""
        return {}

    def draw_quickly(self, game: gym.Env[Any, Any]) -> None:
        """Has an env that draws pictures draw them with less care, for somebody who plays it."""

    def save_game(self, game: gym.Env[Any, Any]) -> Any:
        """A copy of the state of an env itself, below every wrapper, with its random generators; None: it has none, and
        an episode is repeated from its seed instead."""
        return None

    def load_game(self, game: gym.Env[Any, Any], saved: Any) -> None:
        """Puts an env back to what `save_game` copied, as often as it is asked to."""
        raise NotImplementedError

    def renew_luck(self, game: gym.Env[Any, Any], seed: int) -> None:
        """From here on an env draws other random numbers, in the middle of an episode."""
        import numpy as np

        game.np_random = np.random.default_rng(seed)

    def problems(self, kwargs: Mapping[str, Any]) -> list[str]:
        """Everything wrong with env.kwargs, a line each, as far as it is known before an env is made."""
        if self.Task is None:
            return []
        try:
            self.Task.model_validate(dict(kwargs))
        except ValidationError as error:
            known = f" Known: {', '.join(self.Task.model_fields)}."
            lines, _ = explain_errors(error, self.Task, kwargs, {})
            lines = [line.removeprefix("file: ") for line in lines]  # what is wrong between several keys
            return [f"{line}{known}" if "unknown key" in line else line for line in lines]
        return []

    def task(self, kwargs: Mapping[str, Any]) -> Any:
        """The checked Task of env.kwargs; without a Task, the kwargs themselves."""
        if problems := self.problems(kwargs):
            raise UserError("\n".join(f"env.kwargs: {problem}" for problem in problems))
        return kwargs if self.Task is None else self.Task.model_validate(dict(kwargs))

    @property
    def missing(self) -> str | None:
        """What must be installed before the ids exist, as a sentence with the command; None: nothing."""
        return None if self.module is None else package_problem(self.module.partition(".")[0], self.extra)

    def lacks(self, env_id: str) -> str | None:
        """The command that brings what this env needs beyond its package, like a ROM; None: nothing."""
        return None

    def extra_of(self, module: str) -> str | None:
        """The extra that installs what envs of this module need, where they do not all need the same."""
        return self.extra


def draws(spec: EnvSpec) -> bool:
    """Whether an env can be asked for pictures: its class says so itself, or says nothing."""
    from gymnasium.envs.registration import load_env_creator

    entry = spec.entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    modes = getattr(creator, "metadata", {}).get("render_modes")
    return modes is None or "rgb_array" in modes
