"""Work beside training, in a process of its own: it neither blocks training nor can change it.

A worker gets one job at a time, and only when it waits for one, so that handing over never blocks: a line of JSON and
an agent's tensors as safetensors. It answers in JSON. It has a low priority and ends with this process.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gymnast.judge.verdict import Look, Report, report_from_json
from gymnast.judge.when import examine_now, out_of_budget, verdict_allowed
from gymnast.training.state import Frozen, Session

if TYPE_CHECKING:
    from torch import Tensor

NICENESS = 19  # the lowest: a worker takes the time that training leaves
PATIENCE = 3.0  # seconds until a worker that has closed its end must be gone
SHORT_RUN = 10.0  # seconds, within which `auto` does not start a process: importing torch takes two of another core
MOST_WAITING = 256 << 20  # bytes of frozen copies; of more than that, training looks at the oldest itself
GRACE = 5.0  # seconds that a run which ends waits for a look that is under way; then it takes that one itself, too

Warn = Callable[[str], None]


class WorkerLost(Exception):
    """The process is gone, or could not do its job. The message says why."""


class Worker:
    """A process that does one job after another."""

    def __init__(self, task: Mapping[str, Any], niceness: int | None = None) -> None:
        """`niceness`: None: as beside training."""
        niceness = NICENESS if niceness is None else niceness
        self.free = False  # whether it waits for a job; every message it sends says so
        self._connection, there = multiprocessing.Pipe()
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # it must find the same modules
        try:
            # A process group of its own: Ctrl-C is for the training process. Not a session of its own: where the
            # kernel shares out time by session, a low priority would count for nothing against another one.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gymnast.jobs.background_worker", str(there.fileno()), str(niceness)],
                stdin=subprocess.PIPE,  # never written to: it ends when this process does
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                pass_fds=[there.fileno()],
                process_group=0,
            )
        except OSError as error:
            raise WorkerLost(f"it could not be started: {error.strerror}") from error
        finally:
            there.close()  # so that this end sees the end of a dead worker
        self._send(json.dumps(task).encode())

    @property
    def pid(self) -> int:
        return self._process.pid

    def give(self, job: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Only to one that is free."""
        from safetensors.torch import save

        self.free = False
        self._send(json.dumps(job).encode())
        self._send(save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))

    def hear(self, seconds: float = 0.0) -> dict[str, Any] | None:
        """Its next message, or None where none comes within that time. An empty one: it is ready."""
        try:
            if not self._connection.poll(seconds):
                return None
            message: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise WorkerLost(self._how_it_ended()) from None
        if "failed" in message:
            raise WorkerLost(message["failed"])
        self.free = True
        return message

    def close(self) -> None:
        """At once: it has nothing to put in order."""
        assert self._process.stdin is not None
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def _send(self, data: bytes) -> None:
        try:
            self._connection.send_bytes(data)
        except OSError:
            raise WorkerLost(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return "it does not answer"
        return f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"


class Examiner:
    """Takes looks at the agent: at once, or in the background at frozen copies, whose reports come later, in order."""

    def __init__(self, session: Session, warn: Warn) -> None:
        self._warn = warn
        self._mode = session.config.eval.background
        self._worker: Worker | None = None
        self._given: Look | None = None  # what the worker looks at
        self._started = perf_counter()
        if self._mode == "auto" and (session.factory is not None or _cores() < 2):
            self._mode = False
        elif self._mode and session.factory is not None:
            self._inline("an env object cannot be sent to it")

    def later(self, session: Session) -> bool:
        """Whether a look that is due now is left to the background. The last one of a run is not."""
        if not self._mode or out_of_budget(session):
            return False
        return self._mode is True or perf_counter() - self._started >= SHORT_RUN

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
            if report is None and self._mode and not ending and _size(session.frozen) <= MOST_WAITING:
                break
            frozen = session.frozen.pop(0)
            yield report or examine_now(session, frozen.look, frozen.agent), frozen
        if look is not None:
            yield examine_now(session, look), None

    def _hear(self, session: Session, ending: bool) -> Report | None:
        """The worker's report on the oldest copy, if it is there; at the end of a run: or soon will be."""
        try:
            while True:
                worker = self._worker if ending else self._give_next(session)
                if worker is None:
                    return None
                message = worker.hear(GRACE if ending and self._given == session.frozen[0].look else 0.0)
                if message is None:
                    return None
                if message and (report := report_from_json(message)).look == session.frozen[0].look:
                    return report
        except WorkerLost as lost:
            self._inline(str(lost))
            return None

    def _give_next(self, session: Session) -> Worker:
        """Gives the oldest copy to the worker, if it waits for one."""
        if self._worker is None:
            task = {"role": "examine", "threshold": session.threshold}
            self._worker = Worker(task | {"config": session.config.model_dump(mode="json")})
        if self._worker.free:
            frozen = session.frozen[0]
            allowed = verdict_allowed(session, frozen.look)
            job = {"look": asdict(frozen.look), "verdicts": session.counters.verdicts if allowed else None}
            self._worker.give(job, frozen.agent)
            self._given = frozen.look
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
