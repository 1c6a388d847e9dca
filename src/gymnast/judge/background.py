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
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gymnast.core.machine import cores
from gymnast.judge.snapshot import Snapshot
from gymnast.judge.verdict import EvalRequest, EvalResult, result_from_json

if TYPE_CHECKING:
    from torch import Tensor

    from gymnast.config import RunConfig

NICENESS = 19  # the lowest: a worker takes the time that training leaves
PATIENCE = 3.0  # seconds until a worker that has closed its end must be gone
SHORT_RUN = 10.0  # seconds, within which `auto` does not start a process: importing torch takes two of another core
MOST_WAITING = 256 << 20  # bytes of frozen copies; of more than that, training looks at the oldest itself
GRACE = 5.0  # seconds that a run which ends waits for a look that is under way; then it takes that one itself, too

Warn = Callable[[str], None]
Allowance = Callable[[EvalRequest], int | None]  # verdicts so far, or None where there may be none now


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


class Background:
    """Evaluates copies of the agent in another process; results come later, in order."""

    def __init__(self, config: RunConfig, threshold: float | None, can_leave_process: bool) -> None:
        self._config, self._threshold, self._can_leave = config, threshold, can_leave_process
        self._mode: bool | str = False
        self._warn: Warn = warnings.warn
        self._worker: Worker | None = None
        self._given: EvalRequest | None = None  # what the worker evaluates
        self._started = perf_counter()

    def open(self, warn: Warn) -> None:
        """Training begins. Where copies cannot be sent to another process, the run evaluates them itself."""
        self._warn, self._mode, self._started = warn, self._config.eval.background, perf_counter()
        if self._mode == "auto" and (not self._can_leave or cores() < 2):
            self._mode = False
        elif self._mode and not self._can_leave:
            self._inline("an env object cannot be sent to it")

    @property
    def is_on(self) -> bool:
        return self._mode is True or (self._mode == "auto" and perf_counter() - self._started >= SHORT_RUN)

    def may_wait(self, waiting: Sequence[Snapshot]) -> bool:
        return bool(self._mode) and sum(snapshot.size for snapshot in waiting) <= MOST_WAITING

    def hear(self, waiting: Sequence[Snapshot], allowance: Allowance, ending: bool) -> EvalResult | None:
        """The worker's result on the oldest copy, if it is there; at the end of a run: or soon will be."""
        if not self._mode:
            return None
        try:
            while True:
                if not ending:
                    self._give(waiting, allowance)
                if self._worker is None:
                    return None
                request = waiting[0].request
                message = self._worker.hear(GRACE if ending and self._given == request else 0.0)
                if message is None:
                    return None
                if message and (result := result_from_json(message)).request == request:
                    return result
        except WorkerLost as lost:
            self._inline(str(lost))
            return None

    def give_next(self, waiting: Sequence[Snapshot], allowance: Allowance) -> None:
        try:
            self._give(waiting, allowance)
        except WorkerLost as lost:
            self._inline(str(lost))

    def _give(self, waiting: Sequence[Snapshot], allowance: Allowance) -> None:
        """Gives the oldest copy to the worker, if it waits for one."""
        if self._worker is None:
            task = {"role": "examine", "threshold": self._threshold}
            self._worker = Worker(task | {"config": self._config.model_dump(mode="json")})
        if self._worker.free:
            snapshot = waiting[0]
            job = {"request": asdict(snapshot.request), "verdicts": allowance(snapshot.request)}
            self._worker.give(job, snapshot.agent)
            self._given = snapshot.request

    def _inline(self, why: str) -> None:
        self._warn(f"no background evaluation ({why}): the run evaluates between its updates from here on")
        self._mode = False
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
