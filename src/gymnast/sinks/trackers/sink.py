"""Trackers from a run's side: W&B, trackio, TensorBoard each live in a process of their own.

Training hands over copies and goes on; a thread passes them down a pipe. Whatever the tracker's package does there
(raise, hang, print, be killed) cannot reach the run. If it fails, the run says so once. If the run dies, the tracker's
process sees the end of its input and finishes what it has.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from queue import Empty, Full, Queue, SimpleQueue
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError
from gymnast.core.registry import SINKS

if TYPE_CHECKING:
    from gymnast.alerts.alert import Alert

WAITING = 2_000  # messages a tracker may be behind: more than a usual run has
PATIENCE = 60.0  # seconds a run waits at its end for uploads
QUIET_WAIT = 2.0  # seconds of them without a word


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told about the run."""

    folder: Path
    id: str
    algo: str
    env: str
    start_step: int = 0  # env steps when this process took over: later rows of a tracker are from a part that was lost
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As dashboards show it: ppo-w8v2v."""
        return f"{self.algo}-{self.id.split('-')[0]}"


class TrackerFailed(Exception):
    """All there is to say, in one line."""


def is_tracker(name: str) -> bool:
    return hasattr(SINKS.get(name), "package")


def require_sinks(names: Sequence[str]) -> None:
    """A package that is missing is told before training, not after its first rollout."""
    missing = [name for name in names if is_tracker(name) and not is_installed(SINKS.get(name).package)]
    if missing:
        raise UserError(
            f"log.sinks: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed. "
            f'Install with `pip install "gymnast[{",".join(missing)}]"`, or leave it out of log.sinks.'
        )


def is_installed(module: str) -> bool:
    """Not so for a bare folder of that name, which W&B leaves wherever it has run."""
    spec = util.find_spec(module)
    return spec is not None and spec.origin is not None


class TrackerSink:
    """A sink that nothing waits for until it is closed, and then not for long."""

    def __init__(self, name: str, run: TrackedRun, note: Callable[[str], None], patience: float | None = None) -> None:
        self.name = name
        self._run, self._note = run, note
        self._patience = PATIENCE if patience is None else patience
        self._waiting: Queue[dict[str, Any] | None] = Queue(WAITING)
        self._notes: SimpleQueue[str] = SimpleQueue()
        self._failure: str | None = None
        self._ended = threading.Event()
        self._process: subprocess.Popen[str] | None = None
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
        """How the run ended. The tracker finishes from now on; `close` waits for it."""
        self._tell()
        if self._feeder is not None:
            self._put({"do": "close", "status": status})
            self._put(None)

    def close(self) -> None:
        if self._feeder is None:
            return
        try:
            if not self._ended.wait(min(QUIET_WAIT, self._patience)):
                self._note(f"waiting for {self.name}, at most {self._patience:.0f} s (Ctrl-C: wait no longer)")
                if not self._ended.wait(max(0.0, self._patience - QUIET_WAIT)):
                    self._failure = self._failure or f"did not finish within {self._patience:.0f} s"
        except KeyboardInterrupt:
            self._failure = "was not waited for"
        self._tell()

    def _send(self, do: str, step: int, data: Any) -> None:
        self._tell()
        if self._feeder is None:
            self._feeder = threading.Thread(target=self._feed, name=f"{self.name} feeder", daemon=True)
            self._feeder.start()
        self._put({"do": do, "step": step, "data": data})

    def _put(self, message: dict[str, Any] | None) -> None:
        try:
            self._waiting.put_nowait(message)
        except Full:
            self._failure = self._failure or f"is {WAITING:,} rows behind"
            self._tell()

    def _tell(self) -> None:
        """On the run's own thread: what the tracker said, and the one warning if it has failed."""
        while True:
            try:
                self._note(self._notes.get_nowait())
            except Empty:
                break
        if self._failure is None:
            return
        if self._process is not None:
            self._process.kill()
        with contextlib.suppress(Full):  # where it is full, the feeder is at the pipe, which is broken now
            self._waiting.put_nowait(None)
        metrics = self._run.folder / "metrics.jsonl"
        kept = f"all numbers are in {metrics}" if metrics.exists() else "but no other sink keeps the numbers"
        raise TrackerFailed(
            f"{self.name} {self._failure}. It gets no more rows, and training is not affected: {kept}; "
            f"what {self.name} said is in {self._log}."
        )

    @property
    def _log(self) -> Path:
        return self._run.folder / "trackers" / f"{self.name}.log"

    def _feed(self) -> None:
        """A thread of its own: starts the process and fills its pipe, for as long as it takes."""
        try:
            self._log.parent.mkdir(exist_ok=True)
            with open(self._log, "a", encoding="utf-8") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "gymnast.sinks.trackers.process"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    encoding="utf-8",
                    start_new_session=True,  # Ctrl-C is for the run, which then ends its trackers in order
                )
        except OSError as error:
            self._failure = f"could not be started: {error}"
            self._ended.set()
            return
        threading.Thread(target=self._listen, args=(self._process,), name=f"{self.name} listener", daemon=True).start()
        tracker = SINKS.get(self.name)
        opening: dict[str, Any] | None = {
            "target": f"{tracker.__module__}:{tracker.__qualname__}",
            "name": self.name,
            "run": {**vars(self._run), "folder": str(self._run.folder)},
        }
        assert self._process.stdin is not None
        try:
            while opening is not None:
                self._process.stdin.write(json.dumps(opening) + "\n")
                self._process.stdin.flush()
                opening = self._waiting.get()
            self._process.stdin.close()
        except OSError:
            return  # it is gone; the listener knows more

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        done = False
        for line in process.stdout:
            said = json.loads(line)
            if "note" in said:
                self._notes.put(said["note"])
            if "error" in said:
                self._failure = f"failed: {said['error']}"
            done = done or "done" in said
        code = process.wait()
        if not done and self._failure is None:
            self._failure = f"stopped: its process ended {_how(code)}"
        self._ended.set()


def _how(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
