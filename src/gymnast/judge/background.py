"""Evaluation during training, in a worker: it neither blocks training nor can change it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from gymnast.core.machine import cores
from gymnast.jobs.worker import LOWEST_PRIORITY, Job, Worker, WorkerLost
from gymnast.judge.snapshot import Snapshot
from gymnast.judge.stages import NO_STAGES, Stage
from gymnast.judge.verdict import Allowance, EvalRequest, EvalResult, result_from_json

if TYPE_CHECKING:
    from gymnast.config import RunConfig

NICENESS = LOWEST_PRIORITY
SHORT_RUN_SECONDS = 10.0  # within which `auto` starts no process: importing torch takes two of another core
MOST_COPIES = 256 << 20  # bytes of copies that may wait; of more than that, training evaluates the oldest itself
LAST_RESULT_SECONDS = 5.0  # that a run which ends waits for an evaluation under way; then it does that one, too

Warn = Callable[[str], None]
Allow = Callable[[EvalRequest], Allowance | None]  # the verdict that may be given on a moment


class EvaluationWorker:
    """Evaluates one copy of the agent at a time, in another process. Raises `WorkerLost` when that is gone."""

    def __init__(self, config: RunConfig, goals: dict[str, float], stage: Stage = NO_STAGES) -> None:
        # without its sinks: names that only this process has registered are no concern of an evaluation
        arguments = {"config": config.model_dump(mode="json", exclude={"log"}), "goals": goals}
        arguments["earlier"] = {name: env.model_dump(mode="json") for name, env in stage.earlier.items()}
        job = Job("gymnast.judge.work:evaluate_copies", arguments)
        self._worker = Worker(job, niceness=NICENESS, threads=1, log=Path(os.devnull))
        self.given: EvalRequest | None = None  # what it evaluates, or has evaluated last

    @property
    def free(self) -> bool:
        return self._worker.free

    def give(self, snapshot: Snapshot, allowed: Allowance | None) -> None:
        """Only to one that is free."""
        job = {"request": asdict(snapshot.request), "allowed": allowed and asdict(allowed)}
        self._worker.give(job, snapshot.agent)
        self.given = snapshot.request

    def hear(self, seconds: float) -> EvalResult | None:
        """The result on the given copy, if it comes within that time."""
        until = perf_counter() + seconds
        while (event := self._worker.hear(max(0.0, until - perf_counter()))) is not None:
            if event.kind == "result":
                return result_from_json(event.data)
        return None

    def close(self) -> None:
        self._worker.close()


class Background:
    """Decides what a worker evaluates, of copies that wait; results come later, in order."""

    def __init__(
        self, config: RunConfig, goals: dict[str, float], can_leave_process: bool, stage: Stage = NO_STAGES
    ) -> None:
        self._config, self._goals, self._can_leave, self._stage = config, goals, can_leave_process, stage
        self._mode: bool | str = False
        self._warn: Warn = warnings.warn
        self._worker: EvaluationWorker | None = None
        self._started = perf_counter()

    def open(self, warn: Warn) -> None:
        """Training begins. Where copies cannot be sent to another process, the run evaluates them itself."""
        self._warn, self._mode, self._started = warn, self._config.eval.background, perf_counter()
        if self._mode == "auto" and (not self._can_leave or cores() < 2):
            self._mode = False
        elif self._mode and not self._can_leave:
            self._inline("an env object cannot be sent to it")

    def succeed(self, before: Background) -> None:
        """Goes on in the place of another, of an earlier stage."""
        self.open(before._warn)
        self._started = before._started
        before.close()

    @property
    def is_on(self) -> bool:
        return self._mode is True or (self._mode == "auto" and perf_counter() - self._started >= SHORT_RUN_SECONDS)

    def may_wait(self, waiting: Sequence[Snapshot]) -> bool:
        return bool(self._mode) and sum(snapshot.size for snapshot in waiting) <= MOST_COPIES

    def hear(self, waiting: Sequence[Snapshot], allow: Allow, ending: bool) -> EvalResult | None:
        """The worker's result on the oldest copy, if it is there; at the end of a run: or soon will be."""
        if not self._mode:
            return None
        request = waiting[0].request
        try:
            while True:
                worker = self._worker if ending else self._give(waiting, allow)
                if worker is None:
                    return None
                result = worker.hear(LAST_RESULT_SECONDS if ending and worker.given == request else 0.0)
                if result is None and (ending or not worker.free):
                    return None
                if result is not None and result.request == request:
                    return result
        except WorkerLost as lost:
            self._inline(str(lost))
            return None

    def give_next(self, waiting: Sequence[Snapshot], allow: Allow) -> None:
        if not self._mode:  # the worker was lost since this copy was to be left to it
            return
        try:
            self._give(waiting, allow)
        except WorkerLost as lost:
            self._inline(str(lost))

    def _give(self, waiting: Sequence[Snapshot], allow: Allow) -> EvaluationWorker:
        """Gives the oldest copy to the worker, if it waits for one."""
        if self._worker is None:
            self._worker = EvaluationWorker(self._config, self._goals, self._stage)
        if self._worker.free:
            self._worker.give(waiting[0], allow(waiting[0].request))
        return self._worker

    def _inline(self, why: str) -> None:
        self._warn(f"no background evaluation ({why}): the run evaluates between its updates from here on")
        self._mode = False
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
