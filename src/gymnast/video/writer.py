"""A video: shots of one or several agents, encoded as they come, and a JSON file beside it that says what they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from gymnast import config as configs
from gymnast.core.files import write_json
from gymnast.play.stage import Shot, Stage
from gymnast.video.encode import Encoder
from gymnast.video.overlay import Actions, annotated, bare, card

if TYPE_CHECKING:
    from gymnast.config import RunConfig

CARD_SECONDS = 1.5
HOLD_SECONDS = 0.5  # that the last picture of a part stays in a video of several
MOST_FPS = 60.0
RENAMED_BY = {"action_remap", "action_repeat"}  # wrappers after which an action's number means something else


class VideoWriter:
    """Opened with its first shots: their size and pace are the video's."""

    def __init__(self, path: Path, overlay: bool = True, progress: Callable[[int], None] | None = None) -> None:
        self.path, self._overlay, self._progress = path, overlay, progress
        self._stack = ExitStack()
        self._encoder: Encoder | None = None
        self._fps = 0.0
        self._size = (0, 0)
        self._parts: list[dict[str, Any]] = []

    def add(
        self,
        shots: Iterable[Shot],
        stage: Stage,
        actions: Actions,
        about: dict[str, Any],
        title: Sequence[str] = (),
        seconds: float | None = None,
    ) -> list[dict[str, Any]]:
        """Adds episodes, behind a card with the title if there is one; returns what is said of each.

        `about`: what goes into the JSON file, with the training step as "step". `seconds`: no more than these are shown
        of it.
        """
        shots = iter(shots)
        first = list(islice(shots, 2))  # an episode has two pictures at least
        if self._encoder is None:
            # A picture for every decision: with n raw steps in each, n times slower than raw steps would play.
            self._fps = min(stage.fps / max(1, first[1].frames), MOST_FPS)
        shown = chain(first, shots)
        limit = None if seconds is None else round(seconds * self._fps)
        episodes: list[dict[str, Any]] = []
        picture = None
        for count, shot in enumerate(shown):
            if limit is not None and count == limit:
                break
            picture = annotated(shot, about.get("step"), actions) if self._overlay else bare(shot.picture)
            if self._encoder is None:
                self._size = picture.shape[0], picture.shape[1]
                self._encoder = self._stack.enter_context(Encoder(self.path, *self._size, self._fps))
            if count == 0 and title:
                self._hold(card(title, *self._size), CARD_SECONDS)
            self._encoder.write(picture)
            if shot.t == 0:
                episodes.append({"frames": []})
            episodes[-1]["frames"].append(_frame(shot))
            if shot.record is not None:
                ended = {"return": shot.record.raw_return, "length": shot.record.length, "seed": shot.record.seed}
                episodes[-1] = ended | {"terminated": shot.record.terminated} | episodes[-1]
            if self._progress is not None:
                self._progress(self._encoder.frames)
        if title and picture is not None:
            self._hold(picture, HOLD_SECONDS)
        self._parts.append(about | {"actions": list(actions.names), "episodes": episodes})
        return episodes

    @property
    def frames(self) -> int:
        return 0 if self._encoder is None else self._encoder.frames

    def _hold(self, picture: Any, seconds: float) -> None:
        assert self._encoder is not None
        for _ in range(round(seconds * self._fps)):
            self._encoder.write(picture)

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        if error[0] is None and self._encoder is not None:
            height, width = self._size
            about = {"fps": self._fps, "frames": self.frames, "height": height, "width": width}
            write_json(self.path.with_suffix(".json"), about | {"parts": self._parts})


def _frame(shot: Shot) -> dict[str, Any]:
    said: dict[str, Any] = {"t": shot.t, "reward": shot.reward, "return": shot.total}
    if shot.record is not None:
        return said
    return said | {"action": shot.action, "value": shot.value, "probabilities": shot.probabilities}


def shown_actions(config: RunConfig, stage: Stage) -> Actions:
    """Names from the env's facts, from the env itself, or numbers."""
    space = stage.engine.action_space
    facts = configs.load_facts(config.env.id)
    named = None if facts is None else facts.actions
    if {spec.name for spec in config.env.wrappers} & RENAMED_BY:
        named = None
    bounds = None
    if isinstance(space, gym.spaces.Box):
        low = np.where(np.isfinite(space.low), space.low, -1.0).ravel().tolist()
        high = np.where(np.isfinite(space.high), space.high, 1.0).ravel().tolist()
        bounds, count = list(zip(low, high, strict=True)), len(low)
    elif isinstance(space, gym.spaces.Discrete):
        count = int(space.n)
        named = named or stage.action_names()
    elif isinstance(space, gym.spaces.MultiDiscrete):
        sizes = space.nvec.ravel().tolist()
        return Actions([f"{i}: {n}" for i, size in enumerate(sizes) for n in range(size)], sizes=sizes)
    else:
        count = math.prod(space.shape or ())
    return Actions(named if named and len(named) == count else [f"action {i}" for i in range(count)], bounds)
