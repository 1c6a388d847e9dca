"""Runs a job in a process of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from gymnast.core import machine
from gymnast.jobs.worker import Event, Job, Worker, WorkerLost


class LocalRun:
    """A worker with one job."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __iter__(self) -> Iterator[Event]:
        try:
            while (event := self._worker.hear(None)) is not None:
                yield event
                if event.kind == "result":
                    return
        except WorkerLost as lost:
            yield Event("error", {"why": str(lost)})
        finally:
            self._worker.close()

    def stop(self) -> None:
        """As Ctrl-C would, once the job listens for it: it ends soon, and in order."""
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(self._worker.pid, signal.SIGTERM)

    def close(self) -> None:
        """Kills it; the last event then says so."""
        self._worker.kill()


class LocalLauncher:
    def run(self, job: Job) -> LocalRun:
        return LocalRun(Worker(job))

    def room(self, cores: int) -> int:
        return max(1, machine.cores() // cores)
