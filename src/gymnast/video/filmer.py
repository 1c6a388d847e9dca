"""Films while a run trains: made in the background, of each new best agent and by schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gymnast.judge.background import Worker, WorkerLost
from gymnast.video.encode import unfinished

if TYPE_CHECKING:
    from torch import Tensor

    from gymnast.training.rows import Reporter
    from gymnast.training.state import TrainState

MOST_WAITING = 8  # films; a run that asks for more than the background can make does without some
LOOK_SECONDS = 0.1  # between two looks at whether the last films are done
GRACE = 20.0  # seconds that a run which has ended waits for a film; then it is made again at a normal priority


@dataclass(frozen=True)
class Order:
    name: str
    step: int
    agent: dict[str, Tensor]


class Filmer:
    """Notices by itself what is to be filmed. What goes wrong with films is told once and ends them, not the run."""

    def __init__(
        self,
        state: TrainState,
        folder: Path | None,
        reporter: Reporter,
    ) -> None:
        self._config, self._folder = state.config, folder
        self._warn, self._notice, self._filmed = reporter.warn, reporter.notice, reporter.video
        self._worker: Worker | None = None
        self._niceness: int | None = None
        self._waiting: list[Order] = []
        self._current: Order | None = None
        self._skipped = 0
        self._on = self._config.log.video != "off"
        if self._on and folder is None:
            self._stop("a run without a folder has no place for them; give it a runs_dir")
        elif self._on and state.factory is not None:
            self._stop("an env object cannot be sent to another process")
        # A run that goes on has filmed its best already, unless it was stopped before the film was made.
        has_film = folder is not None and (folder / "best.mp4").exists()
        self._best_at = state.judge.record.best_at if has_film else None

    def film(self, state: TrainState) -> None:
        """Orders what is due at this moment and takes notice of what is done; costs nothing where nothing is."""
        if not self._on:
            return
        step, every, judge = state.counters.env_steps, self._config.log.video, state.judge
        if isinstance(every, int) and step // every > (step - state.rollout.size) // every:
            weights = {name: tensor.detach().clone() for name, tensor in state.agent.state_dict().items()}
            self._order(Order(f"step_{step}", step, weights))
        if judge.best_agent is not None and judge.record.best_at != self._best_at:
            self._best_at = judge.record.best_at
            self._waiting = [order for order in self._waiting if order.name != "best"]
            self._order(Order("best", self._best_at, judge.best_agent))
        self._tend()

    def finish(self, interrupted: Callable[[], bool]) -> None:
        """Waits for the films that are ordered; an interruption does without them."""
        missing = len(self._waiting) + (self._current is not None)
        if missing and not interrupted():
            self._notice(f"finishing {missing} {'film' if missing == 1 else 'films'}; Ctrl-C does without")
        until = perf_counter() + GRACE
        while self._on and (self._current or self._waiting) and not interrupted():
            if perf_counter() > until and self._niceness is None:
                self._hurry()
            self._tend()
            sleep(LOOK_SECONDS)
        if self._skipped:
            self._warn(
                f"{self._skipped} films were left out: log.video={self._config.log.video} is more than can be made"
            )

    def _hurry(self) -> None:
        """On a busy machine a low priority may mean hardly any time; training needs none any more."""
        self.close()
        self._waiting = [order for order in (self._current, *self._waiting) if order is not None]
        self._current, self._niceness = None, 0

    def _order(self, order: Order) -> None:
        if len(self._waiting) < MOST_WAITING or order.name == "best":
            self._waiting.append(order)
        else:
            self._skipped += 1

    def _tend(self) -> None:
        try:
            if self._worker is None:
                if not self._waiting:
                    return
                task = {"role": "film", "config": self._config.model_dump(mode="json")}
                self._worker = Worker(task, self._niceness)
            if (done := self._worker.hear()) and self._current is not None:
                order, self._current = self._current, None
                self._notice(f"filmed the agent of step {order.step:,}: return {done['return']:g}, {self._path(order)}")
                self._filmed(order.step, self._path(order))
            if self._worker.free and self._waiting:
                self._current = self._waiting.pop(0)
                self._worker.give(
                    {"path": str(self._path(self._current)), "step": self._current.step}, self._current.agent
                )
        except WorkerLost as lost:
            self._stop(str(lost))

    def _path(self, order: Order) -> Path:
        assert self._folder is not None
        return self._folder / f"{order.name}.mp4"

    def _stop(self, why: str) -> None:
        self._warn(f"no films: {why}")
        self.close()
        self._on, self._current, self._waiting = False, None, []

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
            if self._current is not None:
                unfinished(self._path(self._current)).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
