"""What a run is doing at this moment: training writes it, a display reads it from a thread of its own."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import FrameType
from typing import NamedTuple

JUDGING = ("evaluating", "verdict", "score")
DONE = "done"


class BrokenOff(Exception):
    """An evaluation was given up in the middle: the user asked for an end, or the time is up."""


class Activity(NamedTuple):
    """One thing after another. A tuple, so that a reader in another thread gets all of it or nothing."""

    name: str  # collecting, learning, one of JUDGING, or DONE
    total: int  # what `Pulse.done` counts up to; 0: nothing is counted
    each: int  # env steps (or episodes) in one of these
    step: int  # env steps of the run when it began
    began: float  # on perf_counter's clock
    judged: float  # seconds of evaluations and verdicts before it
    of: str = ""  # the stage or task that is evaluated, in a run with several


class Pulse:
    """Costs training one attribute a vector step. Nothing is locked: a reader may be a moment late."""

    def __init__(self) -> None:
        self.done = self.steps = 0  # `steps`: of the envs of an evaluation, whose episodes may all end at once
        self.enough = 0  # of `done`: what probably decides a verdict; 0: nothing is known yet
        self.mean: float | None = None  # return of the episodes so far
        self.stopping = False  # the user asked for an end
        self.on_stop: Callable[[], None] = lambda: None  # called then, by a signal: it must be quick
        self.cuts = True  # whether a time limit ends a rollout under way
        self.start(0, 0.0, None)

    def start(self, step: int, elapsed: float, seconds: float | None) -> None:
        """A run begins, or goes on after `elapsed` seconds; it may take so many `seconds` in all."""
        now = perf_counter()
        self.zero = now - elapsed  # when the run's clock stood at 0
        self.until = math.inf if seconds is None else self.zero + seconds  # then no round begins,
        self.cut_at = self.until if self.cuts else math.inf  # no rollout goes on,
        self.judge_until = math.inf if seconds is None else max(self.until, now) + last_score_seconds(seconds)
        self.stopping, self.activity = False, Activity("starting", 0, 1, step, now, 0.0)

    def begin(self, name: str, total: int = 0, each: int = 1, step: int | None = None, of: str = "") -> None:
        last, now = self.activity, perf_counter()
        judged = last.judged + (now - last.began if last.name in JUDGING else 0.0)
        self.done = self.steps = self.enough = 0  # before the name changes: no count shall be seen under the next name
        self.mean = None
        self.activity = Activity(name, total, each, last.step if step is None else step, now, judged, of)

    def check(self) -> None:
        """Between two steps of an evaluation."""
        if self.stopping or perf_counter() >= self.judge_until:
            raise BrokenOff

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM sets `stopping`; a second one acts as it always does."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def on_signal(number: int, frame: FrameType | None) -> None:
            self.stopping = True
            restore()
            self.on_stop()

        for number in before:
            signal.signal(number, on_signal)
        try:
            yield
        finally:
            restore()


def last_score_seconds(seconds: float) -> float:
    """How long evaluations may take beyond a run's time limit: an evaluation under way, and the last score."""
    return max(10.0, 0.1 * seconds)
