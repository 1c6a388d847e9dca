"""MinAtar: five Atari games on a board of 10 x 10 cells, a channel for each kind of object.

MinAtar/Breakout-v0 has all six actions, -v1 those that the game uses. The games are the package's own; what is around
them (sticky actions, the ids) is written again here, because importing `minatar` brings matplotlib and SciPy, which
takes three seconds, and because of two differences: an episode does not begin with the last action of the one before it
in mind, so that it can be repeated from its seed, and Freeway's clock, which no observation shows, truncates.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gymnast.config.fields import Section, Share
from gymnast.core.errors import package_problem
from gymnast.envs.snapshot import load_numbers, save_numbers
from gymnast.envs.suites.base import Suite

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

ACTIONS = ("no-op", "left", "up", "right", "down", "fire")
CELL = 16  # pixels of a cell's side in pictures for people
# of the channels in their order, on black; trails lie under everything else
COLOURS = ("4fc3f7", "ff7043", "ffd54f", "81c784", "ba68c8", "f06292", "a1887f", "4db6ac", "e0e0e0", "fff176")
TRAIL = "37474f"


class MinAtarTask(Section):
    sticky_action_prob: Share = Field(
        default=0.1, description="Chance, at every step, that the action before is repeated."
    )
    difficulty_ramping: bool = Field(default=True, description="The game becomes faster as it goes on, where it can.")


class MinAtarSuite(Suite):
    extra = "minatar"
    Task = MinAtarTask

    def make(
        self, spec: EnvSpec, task: Any, limit: int | None, render_mode: str | None, training: bool
    ) -> gym.Env[Any, Any]:
        game = MinAtarGame(**spec.kwargs, **task.model_dump(), render_mode=render_mode)
        game.spec = spec
        return game if limit is None else gym.wrappers.TimeLimit(game, limit)

    def save_game(self, game: gym.Env[Any, Any]) -> Any:
        base: Any = game
        return base._last, save_numbers(base.game)

    def load_game(self, game: gym.Env[Any, Any], saved: Any) -> None:
        base: Any = game
        base._last, numbers = saved
        load_numbers(numbers)
        base._random = base.game.random

    def renew_luck(self, game: gym.Env[Any, Any], seed: int) -> None:
        base: Any = game
        base._random = base.game.random = np.random.RandomState(seed)

    @property
    def missing(self) -> str | None:
        return package_problem("minatar", self.extra)


class MinAtarGame(gym.Env[Any, Any]):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012, as gymnasium declares it

    def __init__(
        self,
        game: str,
        use_minimal_action_set: bool,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self.game: Any = _module(game).Env(ramping=difficulty_ramping)
        self._set = self.game.minimal_action_set() if use_minimal_action_set else list(range(len(ACTIONS)))
        self._sticky, self._last = sticky_action_prob, 0
        self._act, self._state = self.game.act, self.game.state
        self._random = self.game.random
        self._timed = hasattr(self.game, "terminate_timer")  # Freeway, which nothing else ends
        self.action_space = gym.spaces.Discrete(len(self._set))
        self.observation_space = gym.spaces.Box(0, 1, tuple(self.game.state_shape()), np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._random = self.game.random = np.random.RandomState(seed)
        self._last = 0
        self.game.reset()
        return self._state(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._random.random_sample() >= self._sticky:
            self._last = self._set[action]
        reward, over = self._act(self._last)
        return self._state(), reward, over and not self._timed, over and self._timed, {}

    def get_action_meanings(self) -> list[str]:
        return [ACTIONS[action] for action in self._set]

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        colours, order = _palette(tuple(self.game.channels))
        board = np.zeros((*self.game.state_shape()[:2], 3), np.uint8)
        seen = self._state()
        for channel in order:
            board[seen[..., channel]] = colours[channel]
        return board.repeat(CELL, 0).repeat(CELL, 1)


@functools.cache
def _palette(channels: tuple[str, ...]) -> tuple[NDArray[np.uint8], list[int]]:
    """The colour of each channel, and the order to draw them in: the first channel, the player's, is on top."""
    under = [name == "trail" or name.startswith("speed") for name in channels]
    chosen = [TRAIL if low else colour for low, colour in zip(under, COLOURS, strict=False)]
    colours = np.array([list(bytes.fromhex(colour)) for colour in chosen], np.uint8)
    return colours, sorted(range(len(channels)), key=lambda channel: (not under[channel], -channel))


@functools.cache
def _module(game: str) -> ModuleType:
    """The file of one game alone: `import minatar` would import all that its own displays need."""
    package = importlib.util.find_spec("minatar")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("minatar is not installed")
    path = Path(package.submodule_search_locations[0], "environments", f"{game}.py")
    spec = importlib.util.spec_from_file_location(f"minatar_{game}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for _game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders"):
    for _version in (0, 1):
        gym.register(
            f"MinAtar/{_game.title().replace('_', '')}-v{_version}",
            entry_point="gymnast.envs.suites.minatar:MinAtarGame",
            kwargs={"game": _game, "use_minimal_action_set": _version == 1},
        )
