"""Evaluation beside training, in a worker: it neither blocks training nor can change it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gymnast.core.machine import cores
from gymnast.jobs.worker import LOWEST_PRIORITY, Job, Worker, WorkerLost
from gymnast.judge.verdict import Look, Report, report_from_json
from gymnast.judge.when import examine_now, out_of_budget, verdict_allowed
from gymnast.training.state import Frozen, Session

if TYPE_CHECKING:
    from gymnast.config import RunConfig

NICENESS = LOWEST_PRIORITY
SHORT_RUN_SECONDS = 10.0  # within which `auto` starts no process: importing torch takes two of another core
MOST_COPIES = 256 << 20  # bytes of frozen copies that may wait; of more than that, training evaluates the oldest itself
LAST_REPORT_SECONDS = 5.0  # that a run which ends waits for an evaluation under way; then it does that one, too

Warn = Callable[[str], None]


class EvaluationWorker:
    """Evaluates one copy of the agent at a time, in another process. Raises `WorkerLost` when that is gone."""

    def __init__(self, config: RunConfig, threshold: float | None) -> None:
        # without its sinks: names that only this process has registered are no concern of an evaluation
        arguments = {"config": config.model_dump(mode="json", exclude={"log"}), "threshold": threshold}
        self._worker = Worker(
            Job("gymnast.judge.work:evaluate_copies", arguments),
            niceness=NICENESS,
            threads=1,
            log=Path(os.devnull),
        )
        self.given: Look | None = None  # what it evaluates, or has evaluated last

    @property
    def free(self) -> bool:
        return self._worker.free

    def give(self, frozen: Frozen, verdicts: int | None) -> None:
        """Only to one that is free. `verdicts`: so far; None: no verdict is allowed."""
        self._worker.give({"look": asdict(frozen.look), "verdicts": verdicts}, frozen.agent)
        self.given = frozen.look

    def hear(self, seconds: float) -> Report | None:
        """The report on the given copy, if it comes within that time."""
        until = perf_counter() + seconds
        while (event := self._worker.hear(max(0.0, until - perf_counter()))) is not None:
            if event.kind == "result":
                return report_from_json(event.data)
        return None

    def close(self) -> None:
        self._worker.close()


class Examiner:
    """Takes looks at the agent: at once, or in the background at frozen copies, whose reports come later, in order."""

    def __init__(self, session: Session, warn: Warn) -> None:
        self._warn = warn
        self._mode = session.config.eval.background
        self._worker: EvaluationWorker | None = None
        self._started = perf_counter()
        if self._mode == "auto" and (session.factory is not None or cores() < 2):
            self._mode = False
        elif self._mode and session.factory is not None:
            self._inline("an env object cannot be sent to it")

    def later(self, session: Session) -> bool:
        """Whether a look that is due now is left to the background. The last one of a run is not."""
        if not self._mode or out_of_budget(session):
            return False
        return self._mode is True or perf_counter() - self._started >= SHORT_RUN_SECONDS

    def hand_over(self, session: Session, frozen: Frozen) -> None:
        """Leaves a copy to the background; it is looked at when those before it were."""
        session.frozen.append(frozen)
        try:
            self._give_next(session)
        except WorkerLost as lost:
            self._inline(str(lost))

    def reports(self, session: Session, look: Look | None) -> Iterator[tuple[Report, Frozen | None]]:
        """Those that are there: on earlier copies, then the one on `look`, which is taken at once.

        At the end of a run all of them are there: those that the background has not got to are made here, which is
        quicker than it is. Nothing else waits for it, however little time it gets on a busy machine.
        """
        while session.frozen:
            ending = out_of_budget(session) is not None
            report = self._hear(session, ending) if self._mode else None
            if report is None and self._mode and not ending and _size(session.frozen) <= MOST_COPIES:
                break
            frozen = session.frozen.pop(0)
            yield report or examine_now(session, frozen.look, frozen.agent), frozen
        if look is not None:
            yield examine_now(session, look), None

    def _hear(self, session: Session, ending: bool) -> Report | None:
        """The worker's report on the oldest copy, if it is there; at the end of a run: or soon will be."""
        oldest = session.frozen[0].look
        try:
            while True:
                worker = self._worker if ending else self._give_next(session)
                if worker is None:
                    return None
                report = worker.hear(LAST_REPORT_SECONDS if ending and worker.given == oldest else 0.0)
                if report is None and (ending or not worker.free):
                    return None
                if report is not None and report.look == oldest:
                    return report
        except WorkerLost as lost:
            self._inline(str(lost))
            return None

    def _give_next(self, session: Session) -> EvaluationWorker:
        """Gives the oldest copy to the worker, if it waits for one."""
        if self._worker is None:
            self._worker = EvaluationWorker(session.config, session.threshold)
        if self._worker.free:
            frozen = session.frozen[0]
            allowed = verdict_allowed(session, frozen.look)
            self._worker.give(frozen, session.counters.verdicts if allowed else None)
        return self._worker

    def _inline(self, why: str) -> None:
        self._warn(f"no background evaluation ({why}): the run evaluates between its updates from here on")
        self._mode = False
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _size(frozen: Sequence[Frozen]) -> int:
    return sum(tensor.nbytes for one in frozen for tensor in one.tensors.values())
