"""Gathers what happens between two rows and makes a row of it. A name that is not catalogued raises at once."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gymnast.core.tasks import relative
from gymnast.core.typed import Count, Number, typed
from gymnast.metrics.catalogue import catalogue

if TYPE_CHECKING:
    import torch


class Kept(NamedTuple):
    """What is kept of a finished episode (`envs.types.EpisodeRecord`)."""

    raw_return: Number
    length: Count
    frames: Count
    terminated: bool
    components: dict[str, Number]
    shaped_return: Number | None = None  # what the learner was paid, where that is not the raw return
    task: str | None = None  # of a run with several
    success: bool | None = None  # whether the goal was reached, where the env says so


class Saved(TypedDict):
    """A meter in a checkpoint."""

    episode_count: Count
    window: list[Kept]
    best: Number | None
    added: dict[str, list[Number]]
    put: dict[str, list[Number]]
    tasks: NotRequired[dict[str, list[Kept]]]  # not in older checkpoints


SAVED = TypeAdapter(Saved)


class Meter:
    """`add`: mean since the last row. `put`: the last value. `episodes`: a window over the last `window` episodes.

    Tensors are kept as they are and read together when the row is made, so that an update never waits for a device:
    hand over tensors that nobody writes to later.
    """

    def __init__(self, window: int = 100, thresholds: Mapping[str, float] | None = None) -> None:
        """`thresholds`: of each task, in a run with several."""
        self.episode_count = 0
        self._window: deque[Kept] = deque(maxlen=window)
        self.thresholds = dict(thresholds or {})
        self._tasks: dict[str, deque[Kept]] = {name: deque(maxlen=window) for name in self.thresholds}
        self._best: float | None = None
        self._added: dict[str, list[float | torch.Tensor]] = {}
        self._put: dict[str, list[float | torch.Tensor]] = {}  # one value each
        self._catalogue = catalogue()

    @property
    def window(self) -> int:
        return self._window.maxlen or 0

    @property
    def finished(self) -> list[Kept]:
        """The episodes of the window; in a run with several tasks one task's after the other's."""
        return [episode for window in (self._window, *self._tasks.values()) for episode in window]

    def add(self, values: Mapping[str, float | torch.Tensor]) -> None:
        for name, value in values.items():
            if name not in self._added:
                self._catalogue.get(name)
                self._added[name] = []
            self._added[name].append(value)

    def put(self, values: Mapping[str, float | torch.Tensor]) -> None:
        for name, value in values.items():
            self._catalogue.get(name)
            self._put[name] = [value]

    def episodes(self, records: Iterable[Any]) -> None:
        for record in records:
            for name in record.components:
                self._catalogue.get(f"rollout/component/{name}")
            kept = Kept(*(getattr(record, name) for name in Kept._fields))
            (self._window if kept.task is None else self._tasks[kept.task]).append(kept)
            self.episode_count += 1

    def forget_episodes(self) -> None:
        """Those from here on are of another env."""
        self._window.clear()
        self._best = None

    def train_score(self, least: int | None = None) -> float | None:
        """Mean return of the window; None until it is full, or has that many, because few episodes say little."""
        least = self.window if least is None else min(least, self.window)
        known = all(len(window) >= least for window in self._tasks.values() or [self._window])
        return self.mean_return if known else None

    def row(self) -> dict[str, float]:
        """All values since the last row, in catalogue order. What was added or put is forgotten, the window stays."""
        row = self.peek()
        self._added, self._put = {}, {}
        return row

    def peek(self) -> dict[str, float]:
        """What a row would say now. A name that was put wins over the same name from the window."""
        self._read_tensors()
        added = {name: sum(values) / len(values) for name, values in self._added.items()}
        put = {name: values[0] for name, values in self._put.items()}
        row = {**self._episode_row(), **added, **put}
        return self._catalogue.sort({name: float(value) for name, value in row.items()})

    def state(self) -> dict[str, Any]:
        """As JSON, for a checkpoint: a meter that loads it makes the same rows from here on."""
        self._read_tensors()
        return {
            "episode_count": self.episode_count,
            "window": [list(episode) for episode in self._window],
            "best": self._best,
            "added": {name: [float(value) for value in values] for name, values in self._added.items()},
            "put": {name: [float(value) for value in values] for name, values in self._put.items()},
            "tasks": {name: [list(episode) for episode in window] for name, window in self._tasks.items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """ValueError where it is no state of a meter."""
        saved = typed(SAVED, state)
        self.episode_count, self._best = saved["episode_count"], saved["best"]
        self._window.clear()
        self._window.extend(saved["window"])
        for name, window in self._tasks.items():
            window.clear()
            window.extend(saved.get("tasks", {}).get(name, ()))
        self._added = {name: [*values] for name, values in saved["added"].items()}
        self._put = {name: [*values] for name, values in saved["put"].items() if values}
        for name in (*self._added, *self._put):
            self._catalogue.get(name)

    def _read_tensors(self) -> None:
        """Turns every kept tensor into a number, with one transfer for each device."""
        slots: dict[Any, list[tuple[list[Any], int]]] = {}
        for values in (*self._added.values(), *self._put.values()):
            for index, value in enumerate(values):
                if not isinstance(value, float | int):
                    slots.setdefault(value.device, []).append((values, index))
        for device, places in slots.items():
            import torch

            # an accelerator may have no float64: its numbers come as they are and are widened here
            dtype = torch.float64 if device.type == "cpu" else torch.float32
            tensors = [values[index].detach().reshape(()).to(dtype) for values, index in places]
            for (values, index), number in zip(places, torch.stack(tensors).cpu().tolist(), strict=True):
                values[index] = number

    @property
    def mean_return(self) -> float | None:
        """Of the last episodes."""
        return sum(episode[0] for episode in seen) / len(seen) if (seen := self._seen()) else None

    def _seen(self) -> Sequence[Kept]:
        """The window; in a run with several tasks that of the worst one, its returns relative to its threshold."""
        if not self._tasks:
            return self._window
        each = [
            [one._replace(raw_return=relative(one.raw_return, self.thresholds[name])) for one in window]
            for name, window in self._tasks.items()
            if window
        ]
        return min(each, key=lambda window: sum(one.raw_return for one in window) / len(window), default=[])

    def _episode_row(self) -> dict[str, float]:
        row: dict[str, float] = {"time/episodes": self.episode_count}
        if not (seen := self._seen()):
            return row
        count = len(seen)
        returns, lengths, frames, terminated, components, shaped, _, success = zip(*seen, strict=True)
        mean = sum(returns) / count
        self._best = mean if self._best is None else max(self._best, mean)
        row |= {
            "rollout/ep_rew_mean": mean,
            "rollout/ep_rew_std": math.dist(returns, [mean] * count) / math.sqrt(count),
            "rollout/ep_rew_min": min(returns),
            "rollout/ep_rew_max": max(returns),
            "rollout/ep_rew_best": self._best,
            "rollout/ep_len_mean": sum(lengths) / count,
            "rollout/truncated_fraction": terminated.count(False) / count,
        }
        if frames != lengths:
            row["rollout/ep_frames_mean"] = sum(frames) / count
        paid = [value for value in shaped if value is not None]
        if paid:
            row["rollout/ep_shaped_rew_mean"] = sum(paid) / len(paid)
        reached = [one for one in success if one is not None]
        if reached:
            row["rollout/success_rate"] = sum(reached) / len(reached)
        for task, window in ((task, window) for task, window in self._tasks.items() if window):
            row[f"rollout/ep_rew_mean/{task}"] = sum(episode.raw_return for episode in window) / len(window)
            row[f"rollout/ep_len_mean/{task}"] = sum(episode.length for episode in window) / len(window)
        parts: dict[str, list[float]] = {}
        for named in filter(None, components):
            for name, value in named.items():
                parts.setdefault(name, []).append(float(value))
        return row | {f"rollout/component/{name}": sum(values) / len(values) for name, values in parts.items()}
