"""heartbeat.json in every run's folder: written every second by a thread of its own, so that training pays nothing."""

from __future__ import annotations

import threading
from contextlib import suppress
from time import perf_counter

from gymnast.core.pulse import Pulse
from gymnast.runs.heartbeat import Heartbeat
from gymnast.runs.references import Run
from gymnast.sinks.base import RunInfo, Sink
from gymnast.sinks.console.console import step_now

EVERY = 1.0  # seconds
LAST_SECONDS = 2.0  # that the end of a run waits for a disk that takes nothing


class HeartbeatSink(Sink):
    """It ends with the files; `Run.finish` removes what it wrote."""

    def __init__(self, info: RunInfo) -> None:
        self._path = Run(info.place).heartbeat_path
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, pulse: Pulse) -> None:
        self._thread = threading.Thread(target=self._beat, args=(pulse,), name="heartbeat", daemon=True)
        self._thread.start()

    def _beat(self, pulse: Pulse) -> None:
        while not self._ending.wait(EVERY):
            with suppress(OSError):  # a full disk may have room again later
                beat_of(pulse).write(self._path)

    def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)


def beat_of(pulse: Pulse) -> Heartbeat:
    activity, done, enough = pulse.activity, pulse.done, pulse.enough  # in this order: see Pulse.begin
    total, now = enough or activity.total, perf_counter()
    seconds = now - activity.began
    return Heartbeat(
        phase=activity.name,
        done=min(done, total) * activity.each,
        of=total * activity.each,
        probably=enough > 0,
        steps=pulse.steps,
        where=activity.of,
        mean=pulse.mean,
        seconds=seconds,
        left=seconds * (total - done) / done if 0 < done <= total else None,
        elapsed=now - pulse.zero,
        env_steps=step_now(activity, done),
    )
