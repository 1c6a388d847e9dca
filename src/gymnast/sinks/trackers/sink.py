"""Trackers from a run's side: each lives in a worker of its own.

Training hands over copies and goes on; a thread passes them down a pipe. Whatever the tracker's package does there
(raise, hang, print, be killed) cannot reach the run. If it fails, the run says so once. If the run dies, the worker
sees the end of its jobs and finishes what it has.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, Full, Queue, SimpleQueue
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError, not_installed
from gymnast.core.machine import is_installed
from gymnast.core.registry import SINKS
from gymnast.jobs.worker import Job, Worker, WorkerLost
from gymnast.sinks.base import TRACKERS, RunInfo, Sink, SinkFailed
from gymnast.sinks.trackers.tracker import Tracker

if TYPE_CHECKING:
    from gymnast.alerts.alert import Alert

MOST_BEHIND = 2_000  # messages a tracker may be behind: more than a usual run has
UPLOAD_SECONDS = 60.0  # that a run waits at its end for its trackers
SILENT_SECONDS = 2.0  # of them without a word


def is_tracker(name: str) -> bool:
    return issubclass(SINKS.get(name), Tracker)


def require_sinks(names: Sequence[str]) -> None:
    """Reports a missing package before training, not after the first rollout."""
    trackers: dict[str, type[Tracker]] = {name: SINKS.get(name) for name in names if is_tracker(name)}
    missing = {name: tracker for name, tracker in trackers.items() if not is_installed(tracker.package)}
    if missing:
        extras = [tracker.extra for tracker in missing.values() if tracker.extra]
        packages = [tracker.package for tracker in missing.values() if not tracker.extra]
        raise UserError(
            " ".join([f"log.sinks: {not_installed(*missing, extras=extras)}", *(packages if extras else [])])
        )


class TrackerSink(Sink):
    """A sink that nothing waits for until it is closed, and then not for long."""

    closes = TRACKERS

    def __init__(
        self, name: str, info: RunInfo, note: Callable[[str], None], upload_seconds: float | None = None
    ) -> None:
        self.name = name
        self._info, self._note = info, note
        self._log = info.place / "trackers" / f"{name}.log"
        self._upload_seconds = UPLOAD_SECONDS if upload_seconds is None else upload_seconds
        self._waiting: Queue[dict[str, Any] | None] = Queue(MOST_BEHIND)
        self._notes: SimpleQueue[str] = SimpleQueue()
        self._failure: str | None = None
        self._ended = threading.Event()
        self._worker: Worker | None = None
        self._feeder: threading.Thread | None = None  # starts with the first row: a run that never began is not tracked

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._send("write", step, {name: float(value) for name, value in row.items()})

    def alert(self, step: int, alert: Alert) -> None:
        self._send("alert", step, alert.to_json())

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        self._send("diagnostics", step, record)

    def checkpoint(self, step: int, names: Sequence[str], seconds: float) -> None:
        self._send("checkpoint", step, {"names": list(names), "seconds": seconds})

    def video(self, step: int, path: Path) -> None:
        self._send("video", step, str(path))

    def end(self, status: str) -> None:
        """The tracker finishes from now on; `close` waits for it."""
        self._report()
        if self._feeder is not None:
            self._put({"do": "close", "step": 0, "data": status})
            self._put(None)

    def close(self) -> None:
        if self._feeder is None:
            return
        limit = self._upload_seconds
        try:
            if not self._ended.wait(min(SILENT_SECONDS, limit)):
                self._note(f"waiting for {self.name}, at most {limit:.0f} s (Ctrl-C: wait no longer)")
                if not self._ended.wait(max(0.0, limit - SILENT_SECONDS)):
                    self._failure = self._failure or f"did not finish within {limit:.0f} s"
        except KeyboardInterrupt:
            self._failure = "was not waited for"
        self._report()

    def _send(self, do: str, step: int, data: Any) -> None:
        self._report()
        if self._feeder is None:
            self._feeder = threading.Thread(target=self._feed, name=f"{self.name} feeder", daemon=True)
            self._feeder.start()
        self._put({"do": do, "step": step, "data": data})

    def _put(self, message: dict[str, Any] | None) -> None:
        try:
            self._waiting.put_nowait(message)
        except Full:
            self._failure = self._failure or f"is {MOST_BEHIND:,} rows behind"
            self._report()

    def _report(self) -> None:
        """On the run's own thread: what the tracker said, and the one warning if it has failed."""
        with contextlib.suppress(Empty):
            while True:
                self._note(self._notes.get_nowait())
        if self._failure is None:
            return
        if self._worker is not None:
            self._worker.kill()
        with contextlib.suppress(Full):  # where it is full, the feeder is at the pipe, which is broken now
            self._waiting.put_nowait(None)
        metrics = self._info.metrics_path
        kept = f"all numbers are in {metrics}" if metrics.exists() else "but no other sink keeps the numbers"
        raise SinkFailed(
            f"{self.name} {self._failure}. It gets no more rows, and training is not affected: {kept}; "
            f"what {self.name} said is in {self._log}."
        )

    def _feed(self) -> None:
        """A thread of its own: starts the worker and fills its pipe, for as long as it takes."""
        tracker = SINKS.get(self.name)
        arguments = {"tracker": f"{tracker.__module__}:{tracker.__qualname__}", "name": self.name}
        job = Job("gymnast.sinks.trackers.process:track", arguments | {"run": self._info.to_json()})
        try:
            self._log.parent.mkdir(exist_ok=True)
            self._worker = worker = Worker(job, log=self._log, outlives=True)
        except (OSError, WorkerLost) as error:
            self._failure = f"could not be started: {error}"
            self._ended.set()
            return
        threading.Thread(target=self._listen, args=(worker,), name=f"{self.name} listener", daemon=True).start()
        while self._failure is None and (message := self._waiting.get()) is not None:
            worker.give(message)
        worker.finish()

    def _listen(self, worker: Worker) -> None:
        try:
            while (event := worker.hear(None)) is not None and event.kind != "result":
                self._notes.put(event.data["note"])
            worker.wait()  # its package may have things to put in order
        except WorkerLost as lost:
            self._failure = self._failure or f"failed: {lost}"
        worker.close()
        self._ended.set()
