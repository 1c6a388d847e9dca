"""Doom as an env: a decision a step, on the DoomGame API.

The package's own wrapper copies every buffer, asserts every action against its space and shows black at the end of an
episode, from which no value can be estimated. Seeds and actions are the same: an episode here is an episode there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.core.errors import EnvFailure
from gymnast.envs.recorder import Recorder
from gymnast.envs.shaping.env import PARTS
from gymnast.envs.suites.vizdoom import match
from gymnast.envs.suites.vizdoom.buttons import combinations, parts_of, presses
from gymnast.envs.suites.vizdoom.engine import DoomProcess
from gymnast.envs.suites.vizdoom.measures import FRAGS, READ, Measures
from gymnast.envs.suites.vizdoom.task import TICS, DoomTask
from gymnast.envs.suites.vizdoom.views import View

FRAMES = "tics"  # of a decision, in its info
# scenarios with a goal: an episode ends by reaching it, by dying, or too late
GOALS = ("basic", "deadly_corridor", "my_way_home", "predict_position", "freedoom", "doom")
SHOWN = 320  # pixels: how wide a picture for people is at least


class DoomEnv(gym.Env[Any, Any]):
    metadata = {"render_modes": ["rgb_array"], "render_fps": TICS}  # noqa: RUF012, as gymnasium declares it

    def __init__(
        self, scenario: Mapping[str, Any], task: DoomTask, limit: int | None = None, render_mode: str | None = None
    ) -> None:
        colour = task.observation == "rgb" or render_mode is not None
        self._process = DoomProcess(scenario, task, limit, colour)
        self.game, self._failures = self._process.game, self._process.failures
        self._scenario, self._bots = scenario, task.bots
        self._link: match.Link | None = None
        if task.bots:
            self.join_match(match.ALONE)
        own = [button.name for button in self.game.get_available_buttons()]
        self.buttons = task.buttons or [name for name in own if not name.endswith("_DELTA")]
        most = scenario["max_buttons_pressed"] if task.max_buttons is None else task.max_buttons
        self.actions: list[str] | None = task.actions  # None: MultiBinary
        if task.actions is not None:
            self.buttons = list(dict.fromkeys(name for action in task.actions for name in parts_of(action)))
        elif most:
            self.actions = combinations(self.buttons, most)
        self._presses = [presses(action, self.buttons) for action in self.actions or ()]
        self._read = list(dict.fromkeys([*READ, *task.variables]))
        self._process.use(self.buttons, self._read)
        self._measures = Measures(self._read, self.buttons, self.actions)
        self._view = View(task, self._read, colour)
        self._skips, self._limit = task.skips, self.game.get_episode_timeout()
        self._tics, self._paid = 0, False  # of the episode so far; whether it brought any reward above 0
        self._numbers = [0.0] * len(self._read)
        self._frags, self._frag_count = 0.0, self._read.index(FRAGS)
        self._has_goal = str(scenario["scenario_config_file"]).startswith(GOALS)
        self.render_mode = render_mode
        self.observation_space = self._view.space
        self.action_space: gym.Space[Any] = (
            spaces.MultiBinary(len(self.buttons)) if self.actions is None else spaces.Discrete(len(self.actions))
        )

    def join_match(self, connection: str, link: match.Link | None = None) -> None:
        """Plays matches from the next episode on. `link`: with another env, whose host has the time limit."""
        self._process.close()
        match.prepare(self.game, self._scenario)
        self._process.connection, self._link = connection, link

    @property
    def has_process(self) -> bool:
        return self._process.is_there

    def kill(self) -> None:
        """Ends the game, whatever another thread is doing in it."""
        self._process.kill()

    @property
    def _is_match(self) -> bool:
        return self._process.connection is not None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        # the seed that the package's wrapper gives its engine
        self.game.set_seed(int(self.np_random.integers(0, 2**32, dtype=np.uint32)))
        try:
            self._start()
            state = self.game.get_state()
        except self._failures as error:
            raise self._gone(error) from error
        self._tics, self._paid = 0, False
        self._numbers = numbers = state.game_variables.tolist()
        self._measures.start(numbers)
        self._frags = numbers[self._frag_count]
        return self._view.start(state, numbers), {"action_mask": self._measures.mask(numbers)}

    def _start(self) -> None:
        """The engine takes no seed for a second match, so that each one has a process of its own."""
        if self._is_match and self.game.is_running():
            self._process.close()
        if self.game.is_running():
            self.game.new_episode()
        else:
            if self._link is not None:
                self._link.start(self)
            self._process.start()
        for _ in range(self._bots):
            self.game.send_game_command("addbot")  # they are there after the first tics

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        pressed = self._presses[action] if self._presses else [float(bit) for bit in action]
        low, high = self._skips
        tics = low if low == high else int(self.np_random.integers(low, high + 1))
        tics = min(tics, self._limit - self._tics)
        game = self.game
        try:
            if self._link is None:
                reward = game.make_action(pressed, tics)
            else:
                reward, tics = 0.0, self._link.tics(self, tics)
                game.set_action(pressed)
                for rest in reversed(range(tics)):
                    self._link.meet()
                    game.advance_action(1, rest == 0)
            state = game.get_state()
            over = state is None  # the engine has none of a game that is over; what is seen is what was seen last
            numbers = self._last_numbers() if over else state.game_variables.tolist()
            dead = over and not self._is_match and game.is_player_dead()
            late = over and not dead and game.is_episode_timeout_reached()
        except self._failures as error:
            raise self._gone(error) from error
        self._numbers = numbers
        self._tics += tics
        self._paid |= reward > 0
        parts, mask = self._measures.step(numbers), self._measures.mask(numbers)
        info: dict[str, Any] = {FRAMES: tics, PARTS: parts, "action_mask": mask}
        if self._is_match:
            reward = numbers[self._frag_count] - self._frags
            self._frags += reward
            info["reward_components"] = {"frags": reward}
            if over:
                info["is_success"] = match.is_won(game, self._frags)
        elif over and self._has_goal:
            info["is_success"] = self._paid and not dead and not late
        return self._view.observe(state, numbers), reward, over and not late, late, info

    def _last_numbers(self) -> list[float]:
        return [self.game.get_game_variable(one) for one in self.game.get_available_game_variables()]

    def _gone(self, error: Exception) -> EnvFailure:
        self.close()
        title = self.spec.id if self.spec else "Doom"
        return EnvFailure(f"{title}: the Doom process ended in the middle of a game: {' '.join(str(error).split())}")

    def get_action_meanings(self) -> list[str]:
        return self.buttons if self.actions is None else self.actions

    @property
    def variables(self) -> dict[str, float]:
        """What the engine said of the game last, by name."""
        return dict(zip(self._read, self._numbers, strict=True))

    def render(self) -> Any:
        if self.render_mode is None or self._view.picture is None:
            return None
        times = -(-SHOWN // self._view.picture.shape[1])
        return self._view.picture.repeat(times, 0).repeat(times, 1)

    def close(self) -> None:
        self._process.close()


class TicRecorder(Recorder):
    """Counts tics as frames: the engine repeats an action itself."""

    def __init__(self, env: gym.Env[Any, Any], task: DoomTask) -> None:
        super().__init__(env)
        self.frames_a_step = sum(task.skips) / 2

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = super().step(action)
        self.frames += result[4][FRAMES] - 1
        return result
