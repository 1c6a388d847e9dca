"""Videos while a run trains: made in the background, of each new best agent and by schedule."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from gymnast.core.schedule import Every
from gymnast.jobs.worker import LOWEST_PRIORITY, Job, Worker, WorkerLost
from gymnast.video.encode import unfinished

if TYPE_CHECKING:
    from torch import Tensor

    from gymnast.config import RunConfig
    from gymnast.training.rows import Reporter
    from gymnast.training.state import TrainState

NICENESS = LOWEST_PRIORITY
MOST_ORDERS = 8  # that may wait; a run that asks for more than the background can make does without some
POLL_SECONDS = 0.1  # between two questions at the end of a run whether its videos are done
LAST_VIDEOS_SECONDS = 20.0  # that a run which has ended waits; then they are made again at a normal priority


@dataclass(frozen=True)
class Order:
    name: str
    step: int
    agent: dict[str, Tensor]
    config: RunConfig  # of its stage


class VideoMaker:
    """Notices by itself what is due. What goes wrong is reported once and ends the videos, not the run."""

    def __init__(self, state: TrainState, folder: Path | None, reporter: Reporter) -> None:
        self._config, self._folder, self._reporter = state.config, folder, reporter
        self._worker: Worker | None = None
        self._made_in = state.config  # the settings that the worker has its env from
        self._hurried = False
        self._waiting: list[Order] = []
        self._current: Order | None = None
        self._skipped = 0
        wanted = self._config.log.video
        self._on = wanted != "off"
        self._every = Every(wanted if isinstance(wanted, int) else 0)
        self._every.done(state.counters.env_steps)
        if self._on and folder is None:
            self._stop("a run without a folder has no place for them; give it a runs_dir")
        elif self._on and state.factory is not None:
            self._stop("an env object cannot be sent to another process")
        # A run that goes on has a video of its best already, unless it was stopped before that was made.
        has_video = folder is not None and (folder / "best.mp4").exists()
        self._best_at = state.judge.record.best_at if has_video else None

    def update(self, state: TrainState) -> None:
        """Orders what is due at this moment and takes notice of what is done; costs nothing where nothing is."""
        if not self._on:
            return
        step, judge = state.counters.env_steps, state.judge
        config = judge.config
        if self._every.due(step):
            self._every.done(step)
            weights = {name: tensor.detach().clone() for name, tensor in state.agent.state_dict().items()}
            self._order(Order(f"step_{step}", step, weights, config))
        if judge.best_agent is not None and judge.record.best_at != self._best_at:
            self._best_at = judge.record.best_at
            self._waiting = [order for order in self._waiting if order.name != "best"]
            self._order(Order("best", self._best_at, judge.best_agent, config))
        self._tend()

    def finish(self, interrupted: Callable[[], bool]) -> None:
        """Waits for the videos that are ordered; an interruption does without them."""
        missing = len(self._waiting) + (self._current is not None)
        if missing and not interrupted():
            self._reporter.notice(f"finishing {missing} {'video' if missing == 1 else 'videos'} (Ctrl-C to skip)")
        until = perf_counter() + LAST_VIDEOS_SECONDS
        while self._on and (self._current or self._waiting) and not interrupted():
            if perf_counter() > until and not self._hurried:
                self._hurry()
            self._tend()
            sleep(POLL_SECONDS)
        if self._skipped:
            asked = f"log.video={self._config.log.video} asks for more than can be made"
            self._reporter.warn(f"skipped {self._skipped} {'video' if self._skipped == 1 else 'videos'}: {asked}")

    def _hurry(self) -> None:
        """On a busy machine a low priority may mean hardly any time; training needs none any more."""
        self.close()
        self._waiting = [order for order in (self._current, *self._waiting) if order is not None]
        self._current, self._hurried = None, True

    def _order(self, order: Order) -> None:
        if len(self._waiting) < MOST_ORDERS or order.name == "best":
            self._waiting.append(order)
        else:
            self._skipped += 1

    def _tend(self) -> None:
        """Hears what the worker has made, and gives it the next order if it waits for one."""
        if self._worker is None and not self._waiting:
            return
        try:
            if self._worker is None or (self._worker.free and self._waiting and self._moved()):
                self._worker = self._start()
            while (event := self._worker.hear()) is not None:
                if event.kind == "result" and self._current is not None:
                    self._report(self._current, event.data["return"])
                    self._current = None
            if self._worker.free and self._waiting and not self._moved():
                self._current = order = self._waiting.pop(0)
                self._worker.give({"path": str(self._path(order)), "step": order.step}, order.agent)
        except WorkerLost as lost:
            self._stop(str(lost))

    def _moved(self) -> bool:
        """Whether the next order is of another stage than the worker's env."""
        return self._waiting[0].config.env != self._made_in.env

    def _start(self) -> Worker:
        if self._worker is not None:
            self._worker.close()
        self._made_in = self._waiting[0].config
        job = Job("gymnast.video.work:make_videos", {"config": self._made_in.model_dump(mode="json", exclude={"log"})})
        return Worker(job, niceness=0 if self._hurried else NICENESS, threads=1, log=Path(os.devnull))

    def _report(self, order: Order, score: float) -> None:
        path = self._path(order)
        self._reporter.notice(f"made a video of the agent of step {order.step:,}: return {score:g}, {path}")
        self._reporter.video(order.step, path)

    def _path(self, order: Order) -> Path:
        assert self._folder is not None
        return self._folder / f"{order.name}.mp4"

    def _stop(self, why: str) -> None:
        self._reporter.warn(f"no videos: {why}")
        self.close()
        self._on, self._current, self._waiting = False, None, []

    def close(self) -> None:
        if self._worker is not None:
            pid = self._worker.pid
            self._worker.close()
            self._worker = None
            if self._current is not None:
                unfinished(self._path(self._current), pid).unlink(missing_ok=True)
