"""Atari games, one env at a time: what ALE's vector env does in C++, in Python, bit for bit.

game (a frame a step) -> time limit in frames -> recorder -> decisions (frame skip) -> view (pictures, RAM, objects).
This env draws pictures for people as well and takes wrappers, which the vector env cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.envs.suites.atari.task import AtariTask
from gymnast.envs.suites.atari.views import view_of
from gymnast.envs.types import LEARNER_END

_SEED_BITS = 0x7FFF_FFFF  # ALE's seeds are not negative and have 31 bits
_DRAWN_AHEAD = 1024  # frames


def ale_seed(seed: int) -> int:
    """An episode's seed as ALE takes it; the same for every engine."""
    return seed & _SEED_BITS


class AtariGame(gym.Env[Any, Any]):
    """The game itself: a frame a step. A reset presses FIRE and idles as the task says."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 60}  # noqa: RUF012, as gymnasium declares it

    def __init__(self, game: str, task: AtariTask, render_mode: str | None = None) -> None:
        import ale_py
        from ale_py import roms

        self.render_mode = render_mode
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # before its banner is printed
        self.ale: Any = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)  # see _press
        if render_mode == "human":
            self.ale.setBool("display_screen", True)
            self.ale.setBool("sound", True)
        rom = roms.get_rom_path(game)
        assert rom is not None  # every registered game has one in the wheel
        self.ale.setInt("random_seed", 0)
        self.ale.loadROM(rom)
        self._loaded = self.ale.cloneState()
        every, own = self.ale.getLegalActionSet(), self.ale.getMinimalActionSet()
        chosen = [action for name in task.actions or () for action in every if action.name == name]
        # all that the emulator is asked for: also FIRE, where it is pressed for the agent
        self.full_action_space = task.full_action_space or not set(chosen) <= set(own)
        keys = every if self.full_action_space else own
        self._noop, self._fire = ale_py.Action.NOOP, ale_py.Action.FIRE
        self.actions = chosen or keys
        presses = task.fire_reset and self._fire in keys
        self.keys = [*self.actions, *([self._fire] if presses and self._fire not in self.actions else [])]
        self.fire = self.keys.index(self._fire) if presses else None  # None: it is not pressed for the agent
        self._noop_max, self._sticky = task.noop_max, float(np.float32(task.repeat_action_probability))
        self._rng, self._luck = np.random.RandomState(), np.random.RandomState()
        self._pressed = self._noop
        self.restored: Any = None  # the screen of a state that was put back, until the next frame
        self._kept: Iterator[bool] = iter(())  # of the frames to come: whether the key before is held
        self.action_space = spaces.Discrete(len(self.actions))
        self.screen: tuple[int, int] = tuple(self.ale.getScreenDims())  # 210 x 160, and 250 x 160 in some games
        self.observation_space = spaces.Box(0, 255, self.screen, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            # the generators ALE draws its idle frames and its repeated actions with
            self._rng, self._luck = (np.random.RandomState(ale_seed(seed)) for _ in range(2))
            self._kept = iter(())
            self.ale.restoreState(self._loaded)  # to load the game again takes a tenth of a second
        self._restart()
        if self.fire is not None:
            self._press(self._fire)
        for _ in range(self._draw_noops() - (self.fire is not None)):
            self._press(self._noop)
            if self.ale.game_over():
                self._restart()
        return self.ale.getScreenGrayscale(), self._info()

    def _restart(self) -> None:
        self.ale.reset_game()
        self._pressed = self._noop

    def _press(self, key: Any) -> float:
        """A frame with this key, or with the one before (sticky actions). ALE would draw the same, but a seed for its
        generator is taken only when a game is loaded."""
        if self._sticky:
            kept = next(self._kept, None)
            if kept is None:
                # two numbers a frame, one for each player
                drawn = np.frombuffer(self._luck.bytes(8 * _DRAWN_AHEAD), np.uint32)[::2]
                self._kept = iter((drawn / 2**32 < self._sticky).tolist())
                kept = next(self._kept)
            key = self._pressed if kept else key
            self._pressed = key
        self.restored = None
        return float(self.ale.act(key))

    def renew_luck(self, seed: int) -> None:
        """Other repeated actions from here on."""
        self._luck, self._kept = np.random.RandomState(ale_seed(seed)), iter(())

    def _draw_noops(self) -> int:
        """0 to noop_max - 1, as C++ draws it (std::uniform_int_distribution of GCC's library): 32 bits, scaled down."""
        return int.from_bytes(self._rng.bytes(4), "little") * max(1, self._noop_max) >> 32

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The screen is left to whoever wants to see it: most frames are skipped."""
        reward = self._press(self.keys[action])
        return None, reward, self.ale.game_over(), False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"lives": self.ale.lives(), "episode_frame_number": self.ale.getEpisodeFrameNumber()}

    def get_action_meanings(self) -> list[str]:
        return [action.name for action in self.actions]

    def render(self) -> Any:
        if self.render_mode != "rgb_array":
            return None
        return self.ale.getScreenRGB() if self.restored is None else self.restored


class AtariDecisions(gym.Wrapper[Any, Any, Any, Any]):
    """Holds each action for several frames, presses FIRE after a lost life, and shows what the view sees.

    `training`: says where an episode ends for the learner.
    """

    def __init__(self, env: gym.Env[Any, Any], task: AtariTask, training: bool) -> None:
        super().__init__(env)
        game = env.unwrapped
        assert isinstance(game, AtariGame)
        self._fire, self._frames = game.fire, range(task.frame_skip)
        self._ends_with_life = training and task.episodic_life
        self._ends_with_point = training and task.episodic_points
        self.metadata = {**game.metadata, LEARNER_END: self._ends_with_life or self._ends_with_point}
        self._view = view_of(game, task)
        self._lives, self._life_lost = 0, False
        self.observation_space = self._view.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        self._lives, self._life_lost = info["lives"], False
        return self._view.start(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._life_lost and self._fire is not None:
            action = self._fire
        total, terminated, truncated = 0.0, False, False
        info: dict[str, Any] = {}
        for left in reversed(self._frames):
            _, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:  # what is seen then is what was seen last, in ALE as here
                break
            self._view.frame(left)
        goes_on = not (terminated or truncated)
        self._life_lost = goes_on and 0 < info["lives"] < self._lives
        self._lives = info["lives"]
        observation = self._view.observe(int(action))
        if (self._ends_with_life and self._life_lost) or (self._ends_with_point and total != 0 and goes_on):
            info = {**info, LEARNER_END: True}
        return observation, total, terminated, truncated, info
