"""Console games, one env at a time: game (a frame a step) -> time limit in frames -> recorder -> decisions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.core.errors import UserError
from gymnast.envs.shaping.env import PARTS
from gymnast.envs.suites.retro.buttons import combos_of, label_of
from gymnast.envs.suites.retro.console import Console
from gymnast.envs.suites.retro.referee import Referee
from gymnast.envs.suites.retro.task import RetroTask
from gymnast.envs.suites.retro.view import View
from gymnast.envs.types import LEARNER_END

SUCCESS = "is_success"
DIED = "died"


class RetroGame(gym.Env[Any, Any]):
    """The game itself: a frame a step, with its score and its ends."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012, as gymnasium declares it

    def __init__(self, game: str, task: RetroTask, render_mode: str | None = None) -> None:
        self.render_mode, self.task = render_mode, task.of_game(game)
        task = self.task
        self.console = Console(game)
        try:
            self._states = task.state if isinstance(task.state, list) else [task.state]
            for state in self._states:
                if state is not None:
                    self.console.check_state(state)
            self.combos = combos_of(task.actions, self.console.buttons, self.console.groups)
            self.referee = Referee(task, self.console.variables)
            if task.score == "win" and "level" not in self.referee.parts:
                raise UserError("env.kwargs: score = win: needs variables.level, which says when a level was won.")
        except UserError:
            self.console.close()
            raise
        self._wins, self._level_end = task.score == "win", bool(task.level_end)
        self._death_end = task.life_loss == "end"
        self._sticky, self._noop_max = task.repeat_action_probability, task.noop_max
        self._held = 0  # buttons of the frame before
        self.state: str | None = None  # the savestate that the episode started from
        self.action_space = spaces.Discrete(len(self.combos))
        self.observation_space = spaces.Box(0, 255, self.console.screen.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(len(self._states))) if len(self._states) > 1 else 0
        self.state, self._held = self._states[drawn], 0
        variables = self._idle(self.console.start(self.state))
        self.referee.start(variables)
        return None, variables

    def _idle(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Frames without a button before the first decision: the console draws no numbers of its own, so that games
        would all be the same. Returns the game's variables after them."""
        frames = int(self.np_random.integers(self._noop_max)) if self._noop_max > 1 else 0
        for _ in range(frames):
            _, over, variables = self.console.frame(0)
            if over:
                variables = self.console.start(self.state)
        if frames:
            self.console.look()
        return variables

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The screen is left to whoever wants to see it: most frames are skipped."""
        if not self._sticky or self.np_random.random() >= self._sticky:
            self._held = self.combos[action]
        reward, over, info = self.console.frame(self._held)
        referee = self.referee
        referee.follow(info, reward)
        info[PARTS] = referee.parts
        if self._wins:
            reward = float(referee.won)
        over = over or (referee.died and self._death_end) or (referee.won and self._level_end)
        if "level" in referee.parts:
            info[SUCCESS] = referee.wins > 0
        info[DIED] = referee.died
        return None, reward, over, referee.is_stuck and not over, info

    def get_action_meanings(self) -> list[str]:
        return self.task.actions or [label_of(bits, self.console.buttons) for bits in self.combos]

    def render(self) -> Any:
        return self.console.screen if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.console.close()


class RetroDecisions(gym.Wrapper[Any, Any, Any, Any]):
    """Holds each action for several frames and shows pictures of them."""

    def __init__(self, env: gym.Env[Any, Any], task: RetroTask, life_loss: bool) -> None:
        super().__init__(env)
        game = env.unwrapped
        assert isinstance(game, RetroGame)
        self._game, self._console = game, game.console
        self.metadata = {**game.metadata, LEARNER_END: life_loss}
        self._frames = task.frame_skip if isinstance(task.frame_skip, list) else [task.frame_skip] * 2
        self._late, self._last = task.late_action_probability, self._idle()
        self._view = View(game.console.screen.shape, task)
        self.observation_space = self._view.space

    def _idle(self) -> int | None:
        """The action of no button, if there is one: nothing was held before the first."""
        return self._game.combos.index(0) if 0 in self._game.combos else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        self._last = self._idle()
        return self._view.start(self._console.screen), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        least, most = self._frames
        frames = least if least == most else int(self._game.np_random.integers(least, most + 1))
        late = self._late and self._last is not None and self._game.np_random.random() < self._late
        total, life_lost, parts = 0.0, False, dict.fromkeys(self._game.referee.parts, 0.0)
        for number in range(frames):
            _, reward, terminated, truncated, info = self.env.step(self._last if late and number == 0 else action)
            total += float(reward)
            life_lost = life_lost or info[DIED]
            for name, value in info[PARTS].items():
                parts[name] += value
            over = terminated or truncated
            if over or number >= frames - 2:
                self._view.frame(self._console.look())
            if over:
                break
        self._last = int(action)
        info[PARTS], info[LEARNER_END] = parts, self.metadata[LEARNER_END] and life_lost and not over
        return self._view.observe(), total, terminated, truncated, info
