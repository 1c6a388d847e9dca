"""A video: steps of one or several agents, encoded as they come, and a JSON file that describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.core.files import write_json
from gymnast.video.encode import Encoder
from gymnast.video.overlay import annotated, bare, card

if TYPE_CHECKING:
    from gymnast.play.episode import Step
    from gymnast.play.step_table import Labels

CARD_SECONDS = 1.5
HOLD_SECONDS = 0.5  # that the last picture of a part stays in a video of several
MOST_FPS = 60.0


class VideoWriter:
    """Opened with its first steps: their size and pace are the video's."""

    def __init__(self, path: Path, overlay: bool = True, progress: Callable[[int], None] | None = None) -> None:
        self.path, self._overlay, self._progress = path, overlay, progress
        self._stack = ExitStack()
        self._encoder: Encoder | None = None
        self._fps = 0.0
        self._size = (0, 0)
        self._parts: list[dict[str, Any]] = []

    def add(
        self,
        steps: Iterable[Step],
        fps: float,
        labels: Labels,
        about: dict[str, Any],
        title: Sequence[str] = (),
        seconds: float | None = None,
    ) -> list[dict[str, Any]]:
        """Adds episodes, behind a card with the title if there is one; returns what is said of each.

        `about`: what goes into the JSON file, with the training step as "step". `seconds`: no more than these are shown
        of it.
        """
        steps = iter(steps)
        first = list(islice(steps, 2))  # an episode has two pictures at least
        if self._encoder is None:
            # A picture for every decision: with n frames in each, n times fewer pictures than frames a second.
            self._fps = min(fps / max(1, first[1].frames), MOST_FPS)
        limit = None if seconds is None else round(seconds * self._fps)
        episodes: list[dict[str, Any]] = []
        picture, reward = None, 0.0
        paid = dict.fromkeys(first[0].components, 0.0)  # by each named part of the reward, in the episode so far
        for count, step in enumerate(islice(chain(first, steps), limit)):
            if step.t == 0:
                paid = dict.fromkeys(paid, 0.0)
            picture = annotated(step, reward, about.get("step"), labels, paid) if self._overlay else bare(step)
            if self._encoder is None:
                self._size = picture.shape[0], picture.shape[1]
                self._encoder = self._stack.enter_context(Encoder(self.path, *self._size, self._fps))
            if count == 0 and title:
                self._hold(card(title, *self._size), CARD_SECONDS)
            self._encoder.write(picture)
            if step.t == 0:
                episodes.append({"frames": []})
            episodes[-1]["frames"].append(_frame(step, reward))
            reward = step.reward
            paid = {name: value + step.components.get(name, 0.0) for name, value in paid.items()}
            if (end := step.record) is not None:
                ended = {"return": end.raw_return, "length": end.length, "seed": end.seed, "terminated": end.terminated}
                episodes[-1] = ended | episodes[-1]
            if self._progress is not None:
                self._progress(self._encoder.frames)
        if title and picture is not None:
            self._hold(picture, HOLD_SECONDS)
        self._parts.append(about | {"actions": labels.actions, "episodes": episodes})
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


def _frame(step: Step, reward: float) -> dict[str, Any]:
    said: dict[str, Any] = {"t": step.t, "reward": reward, "return": step.total}
    if step.record is not None:
        return said
    return said | {"action": step.action, "value": step.value, "probabilities": step.choices.get("probability")}
