"""The commands of a session, in its process: play here, inspection in `inspection.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.errors import UserError
from gymnast.play.dataset import require_minari, save_dataset
from gymnast.play.keys import CODES, Keys, shown_name
from gymnast.play.player import command_seed, episode_seed
from gymnast.play.session import PlaySession
from gymnast.play.step_table import labels_of
from gymnast.studio.about import about_session
from gymnast.studio.commands import flag, text, whole
from gymnast.studio.inspection import Inspection
from gymnast.studio.packets import FRAME, encoded
from gymnast.studio.work import now

if TYPE_CHECKING:
    from gymnast.play.episode import Step
    from gymnast.play.trace import Trace
    from gymnast.studio.opening import Opened
    from gymnast.studio.work import Inbox, Outbox

MOST_FPS = 1000.0
DRAWN_FPS = 60.0  # pictures a second at most; an env may be faster
SLOW_PICTURE = 1 / 30  # seconds
PAUSE = 1.0  # seconds between two episodes
LONGEST_SLEEP = 0.25  # seconds in which no command is taken
MOST_STEPS_AT_ONCE = 1000


class Desk:
    def __init__(self, opened: Opened, inbox: Inbox, out: Outbox) -> None:
        self.opened, self.inbox, self.out = opened, inbox, out
        self.game = game = opened.game
        self.session = PlaySession(game, opened.agent, opened.untrained)
        labels = labels_of(opened.untrained.agent, game.config, game.vec.action_labels, game.task)
        self.keys = Keys(game.vec.action_space, labels, game.turned)
        self.labels = replace(labels, actions=[shown_name(name, game.turned) for name in labels.actions])
        self.inspection = Inspection(self)
        self.about = about_session(self)
        self.root, self._episode = command_seed(opened.config.train.seed), 0
        self.policy = "greedy" if opened.checkpoint else "random"
        self.checkpoint = opened.checkpoint
        self.playing = False
        self._fps = game.fps
        self._due = self._drawn = 0.0  # when the next raw step is due, and when the next picture may be drawn
        self._down: list[str] = []
        self._tapped: list[str] = []  # pressed and released since the last step
        self._recorded: list[Trace] | None = None  # the episodes of a recording; None: there is none
        self._second: Any = None  # what a second player moves
        game.before_frame, game.after_frame = self._before_frame, self._after_frame
        self._commands: dict[str, Callable[[dict[str, Any], int], dict[str, Any]]] = {
            "play": self._play,
            "pause": self._pause,
            "step": self._step,
            "fps": self._set_fps,
            "keys": self._keys,
            "reset": self._reset,
            "two_players": self._two_players,
            "record": self._record,
            "state": lambda command, number: self.state(),
            "cancel": lambda command, number: {},
            **self.inspection.commands,
        }

    def do(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        found = self._commands.get(command["do"])
        if found is None:
            raise UserError(f"unknown command {command['do']!r}.")
        return found(command, number)

    # time

    def wait(self) -> float | None:
        """Seconds until the next step is due; None: until the next command."""
        if not self.playing or (self.policy == "human" and self._human_action() is None and not self._over()):
            return None
        return max(0.0, self._due - now())

    def tick(self) -> None:
        """One step of what is played, or the next episode."""
        if self.session.trace is None or self._over():
            self._begin(None)
            return
        if self.policy == "human":
            action = self._human_action()
            if action is None:
                return
            self._tapped.clear()
            step = self.session.advance("human", action, self.checkpoint)
        else:
            step = self.session.advance(self.policy, checkpoint=self.checkpoint)
        self._say(step)
        if self._over():
            self._show()
            self._due = now() + PAUSE

    def stop(self, error: str) -> None:
        """What was played cannot go on."""
        self.playing, self.session.trace = False, None
        self.out.push(type="stopped", error=error)

    def _over(self) -> bool:
        return self.session.trace is not None and self.session.trace.outcome is not None

    def _before_frame(self) -> None:
        """Before each raw step of the env: keeps the pace inside a decision too, where a frame skip holds an action."""
        if self._second is not None:
            self._second.move(*(any(code in self._down for code in codes) for codes in self._second_keys()))
        if not self.playing:
            return
        if (early := self._due - now()) > 0:
            time.sleep(min(early, LONGEST_SLEEP))
        self._due = max(self._due, now() - 1 / self._fps) + 1 / self._fps  # a slow moment is not made up for

    def _second_keys(self) -> list[list[str]]:
        """Of the second player, up and down: all that the first does not need."""
        own = 1 if self.policy == "human" else 0
        return [list(CODES[direction][own:]) for direction in ("up", "down")]

    def _after_frame(self) -> None:
        if self.playing and now() >= self._drawn:
            self._show(1)

    def _human_action(self) -> Any:
        """Of the keys; None: nothing that is allowed now, so time stands still."""
        action = self.keys.action([*self._down, *(code for code in self._tapped if code not in self._down)])
        mask = self.session.mask
        return None if action is not None and mask is not None and not self.labels.allows(mask, action) else action

    # what is said

    def _show(self, ahead: int = 0) -> None:
        """What the game shows now, to all windows; `ahead`: of a step that is not over yet."""
        start = now()
        trace = self.session.trace
        picture = self.game.picture() if trace is not None and (ahead or self.session.is_here) else None
        if picture is None or trace is None:
            return
        codec, data = encoded(picture)
        self.out.picture(
            FRAME, codec, (picture.shape[0], picture.shape[1]), data, episode=trace.n, t=trace.length + ahead
        )
        took = now() - start
        rest = took if took > SLOW_PICTURE else took / 5  # pictures that take long must not hold up the env
        self._drawn = start + max(1 / DRAWN_FPS - 0.001, took + rest)

    def _say(self, step: Step) -> None:
        trace = self.session.trace
        assert trace is not None
        self.out.push(
            type="step",
            episode=trace.n,
            t=step.t,
            who=trace.who[-1],
            action=step.action,
            label=self.labels.text(step.action),
            reward=step.reward,
            total=step.total + step.reward,
            value=step.value,
            probs=step.choices.get("probability"),
            mean=step.choices.get("mean"),
            std=step.choices.get("std"),
            entropy=trace.entropies[-1],
            components=step.components,
            variables=self.game.variables,
            opponent=None if self.game.opponent is None else self.game.opponent.game.total,
            mask=None if step.mask is None else step.mask.tolist(),
            over=trace.outcome is not None,
            outcome=trace.outcome,
            exact=trace.exact,
        )

    def state(self) -> dict[str, Any]:
        """For a window that joins."""
        trace = self.session.trace
        self._show()
        return {
            "playing": self.playing,
            "policy": self.policy,
            "checkpoint": self.checkpoint,
            "fps": self._fps,
            "episode": None if trace is None else trace.n,
            "t": 0 if trace is None else trace.length,
            "total": 0.0 if trace is None else trace.total,
            "recording": self._recorded is not None,
            "two_players": self._second is not None,
        }

    # commands of play

    def _begin(self, seed: int | None) -> None:
        if seed is None:
            seed = episode_seed(self.root, self._episode)
            self._episode += 1
        trace = self.session.begin(seed, self.policy, self.checkpoint)
        trace.second_player |= self._second is not None
        if self._recorded is not None:
            self._recorded.append(trace)
        self._due = now()
        self.out.push(type="episode", episode=trace.n, seed=trace.seed, policy=trace.policy)
        self._show()

    def _play(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        policy, checkpoint = command.get("policy", self.policy), text(command, "checkpoint") or self.checkpoint
        self.session.thinker(policy, checkpoint)  # a mistake is reported here
        self.policy, self.checkpoint, self.playing = policy, checkpoint, True
        self._due = max(self._due, now())
        if self.session.trace is None:
            self._begin(None)
        return self.state()

    def _pause(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        self.playing = False
        return self.state()

    def _step(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        n = whole(command, "n", 1, 1, MOST_STEPS_AT_ONCE)
        policy = command.get("policy", self.policy)
        self.playing = False
        for _ in range(n):
            if self.session.trace is None or self._over():
                self._begin(None)
            action = self._human_action() if policy == "human" else None
            if "action" in command:
                policy, action = "human", self.read_action(command["action"])
            if policy == "human" and action is None:
                break
            self._say(self.session.advance(policy, action, self.checkpoint))
            if self._over() or self.inbox.is_cancelled():
                break
        return self.state()

    def _set_fps(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        value = command.get("value")
        if not isinstance(value, int | float) or not 0.1 <= value <= MOST_FPS:
            raise UserError(f"fps is {value!r} and must be a number from 0.1 to {MOST_FPS:g}.")
        self._fps = float(value)
        self._due = min(self._due, now() + 1 / self._fps)
        return {"fps": self._fps}

    def _keys(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        down = command.get("down")
        if not isinstance(down, list) or not all(isinstance(code, str) for code in down) or len(down) > 32:
            raise UserError("keys: down must be a list of key codes.")
        down = [code for code in down if code in self.keys.codes or self._second is not None]
        self._tapped += [code for code in down if code not in self._down and code not in self._tapped]
        self._down = down
        if not down and command.get("blur"):
            self._tapped.clear()
        return {}

    def _reset(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        self._begin(None if command.get("seed") is None else whole(command, "seed", 0, 0, 2**32 - 1))
        return self.state() | {"seed": self.session.trace.seed if self.session.trace else None}

    def _two_players(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        """From the next episode on a human plays the other side."""
        if self.game.second_player is None:
            raise UserError(f"{self.game.config.id} has no second side that could be played.")
        on = flag(command, "on")
        self._second = None
        self._begin(None)
        if on:
            self._second = self.game.second_player(self.game.env)
            assert self.session.trace is not None
            self.session.trace.second_player = True
        return self.state()

    def _record(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        """Everything that is played until it is switched off, the episode under way included."""
        if flag(command, "on"):
            require_minari()
            if self._recorded is None:
                self._recorded = [] if self.session.trace is None or self._over() else [self.session.trace]
            return {"recording": True}
        recorded, self._recorded = self._recorded, None
        if not recorded:
            return {"recording": False, "dataset": None}
        found = save_dataset(recorded, self.game, self.opened.runs_dir / "datasets", "play")
        return {"recording": False, "dataset": found | {"path": f"datasets/{found['id']}"}}

    def read_action(self, given: Any) -> Any:
        """An action from outside, as the env takes it."""
        space: Any = self.game.vec.action_space
        try:
            action = np.asarray(given, space.dtype).reshape(space.shape)
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"action {given!r}: this env has {space}.") from None
        if not space.contains(action if action.shape else action[()]):
            raise UserError(f"action {given!r}: this env has {space}.")
        return action
