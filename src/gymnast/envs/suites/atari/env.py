"""Atari games from pixels, one env at a time: what ALE's vector env does in C++, in Python, bit for bit.

game (a frame a step) -> time limit in frames -> recorder -> pictures (frame skip, pooling, resizing, stacking).
This env draws pictures for people as well and takes wrappers, which the vector env cannot.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.envs.suites.atari.task import AtariTask
from gymnast.envs.types import LIFE_LOST

_SEED_BITS = 0x7FFF_FFFF  # ALE's seeds are not negative and have 31 bits


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
        self.ale.setFloat("repeat_action_probability", task.repeat_action_probability)
        if render_mode == "human":
            self.ale.setBool("display_screen", True)
            self.ale.setBool("sound", True)
        rom = roms.get_rom_path(game)
        assert rom is not None  # every registered game has one in the wheel
        self._rom = rom
        self.ale.loadROM(self._rom)
        self.actions = self.ale.getLegalActionSet() if task.full_action_space else self.ale.getMinimalActionSet()
        self._noop, self._fire = ale_py.Action.NOOP, ale_py.Action.FIRE
        # its index among the actions; None: it is not pressed
        self.fire = self.actions.index(self._fire) if task.fire_reset and self._fire in self.actions else None
        self._noop_max = task.noop_max
        self._rng = np.random.RandomState()
        self.action_space = spaces.Discrete(len(self.actions))
        self.screen: tuple[int, int] = tuple(self.ale.getScreenDims())  # 210 x 160, and 250 x 160 in some games
        self.observation_space = spaces.Box(0, 255, self.screen, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.ale.setInt("random_seed", ale_seed(seed))
            self._rng = np.random.RandomState(ale_seed(seed))  # the generator ALE draws its idle frames with
            self.ale.loadROM(self._rom)
        self.ale.reset_game()
        if self.fire is not None:
            self.ale.act(self._fire)
        for _ in range(self._draw_noops() - (self.fire is not None)):
            self.ale.act(self._noop)
            if self.ale.game_over():
                self.ale.reset_game()
        return self.ale.getScreenGrayscale(), self._info()

    def _draw_noops(self) -> int:
        """0 to noop_max - 1, as C++ draws it (std::uniform_int_distribution of GCC's library): 32 bits, scaled down."""
        return int.from_bytes(self._rng.bytes(4), "little") * max(1, self._noop_max) >> 32

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The screen is left to whoever wants to see it: most frames are skipped."""
        reward = self.ale.act(self.actions[action])
        return None, reward, self.ale.game_over(), False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"lives": self.ale.lives(), "episode_frame_number": self.ale.getEpisodeFrameNumber()}

    def get_action_meanings(self) -> list[str]:
        return [action.name for action in self.actions]

    def render(self) -> Any:
        return self.ale.getScreenRGB() if self.render_mode == "rgb_array" else None


class AtariPictures(gym.Wrapper[Any, Any, Any, Any]):
    """Frame skip, pooling of two frames, grey, resized, stacked: [stack, size, size] uint8."""

    def __init__(self, env: gym.Env[Any, Any], task: AtariTask, life_loss: bool) -> None:
        super().__init__(env)
        game = env.unwrapped
        assert isinstance(game, AtariGame)
        self._ale, self._fire, self._task = game.ale, game.fire, task
        self.metadata = {**game.metadata, LIFE_LOST: life_loss}
        self._screens = np.zeros((2, *game.screen), np.uint8)  # the last frame of a step, and the one before it
        self._stack = np.zeros((task.stack, task.screen_size, task.screen_size), np.uint8)
        self._resize = AreaResize(game.screen, (task.screen_size, task.screen_size))
        self._lives, self._life_lost = 0, False
        self.observation_space = spaces.Box(0, 255, self._stack.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        self._ale.getScreenGrayscale(self._screens[0])
        self._screens[1].fill(0)
        self._stack.fill(0)
        self._lives, self._life_lost = info["lives"], False
        return self._observe(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._life_lost and self._fire is not None:
            action = self._fire
        total, terminated, truncated = 0.0, False, False
        info: dict[str, Any] = {}
        for left in reversed(range(self._task.frame_skip)):
            _, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:  # what is seen then is what was seen last, in ALE as here
                break
            if left < 2:
                self._ale.getScreenGrayscale(self._screens[left])
        self._life_lost = 0 < info["lives"] < self._lives and not (terminated or truncated)
        self._lives = info["lives"]
        return self._observe(), total, terminated, truncated, {**info, LIFE_LOST: True} if self._life_lost else info

    def _observe(self) -> NDArray[np.uint8]:
        if self._task.max_pool:
            np.maximum(self._screens[0], self._screens[1], out=self._screens[0])
        self._stack[:-1] = self._stack[1:]
        self._stack[-1] = self._resize(self._screens[0])
        return self._stack.copy()


class AreaResize:
    """OpenCV's INTER_AREA for shrinking, with its order of additions, so that not one pixel rounds differently."""

    def __init__(self, source: tuple[int, int], target: tuple[int, int]) -> None:
        (self._row_index, self._row_weight), (self._column_index, self._column_weight) = (
            _area_taps(n, m) for n, m in zip(source, target, strict=True)
        )

    def __call__(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        columns = [picture[:, i] * w for i, w in zip(self._column_index, self._column_weight, strict=True)]
        narrow = functools.reduce(np.add, columns)
        rows = [narrow[i] * w[:, None] for i, w in zip(self._row_index, self._row_weight, strict=True)]
        return np.rint(functools.reduce(np.add, rows)).astype(np.uint8)


def _area_taps(source: int, target: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """[k, target]: the source pixels that each target pixel covers, and the share it has of each."""
    scale = source / target
    taps: list[list[tuple[int, float]]] = []
    for pixel in range(target):
        begin, end = pixel * scale, (pixel + 1) * scale
        width = min(scale, source - begin)
        last = min(math.floor(end), source - 1)
        first = min(math.ceil(begin), last)
        covered = [(first - 1, (first - begin) / width)] if first - begin > 1e-3 else []
        covered += [(whole, 1 / width) for whole in range(first, last)]
        covered += [(last, min(end - last, 1.0, width) / width)] if end - last > 1e-3 else []
        taps.append(covered)
    most = max(len(covered) for covered in taps)
    padded = [covered + [(0, 0.0)] * (most - len(covered)) for covered in taps]
    index = np.array([[i for i, _ in covered] for covered in padded], np.intp).T
    weight = np.array([[w for _, w in covered] for covered in padded], np.float32).T
    return index, weight
