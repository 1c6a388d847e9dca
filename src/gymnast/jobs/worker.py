"""Work in a process of its own: what to do goes there as JSON, with tensors as safetensors; answers come back as JSON.

Nothing here waits unless it is asked to. A worker ends with this process, however that ends (or finishes what it has,
if it `outlives`), and it says how it ended: by an error in one line, an exit code, or a signal. `child.py` is its end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gymnast.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

CHILD = Path(__file__).with_name("child.py")
PACKAGE = Path(__file__).parents[1]
LOWEST_PRIORITY = 19  # a niceness: such a worker takes the time that others leave
EXIT_SECONDS = 3.0  # until a worker that has closed its end must be gone


class WorkerLost(UserError):
    """The process is gone, or could not do its job. The message says why."""

    def __init__(self, message: str, killed: bool = False) -> None:
        """`killed`: by a signal, as where memory runs out, and not by an error of its own."""
        super().__init__(message)
        self.killed = killed


class Event(NamedTuple):
    """An answer: `ready` and `result` say that the worker waits for a job, `event` what happens on the way."""

    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Resources:
    """What a cluster reserves for a job in addition to cores, and the labels that its machine must have."""

    gpu: float = 0.0
    memory: int = 0  # bytes
    labels: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{self.gpu:g} GPU"] * (self.gpu > 0) + [f"{self.memory / 2**30:.3g} GiB of memory"] * (
            self.memory > 0
        )
        return ", ".join([*parts, *(f"the label {name}={value}" for name, value in self.labels.items())])


@dataclass(frozen=True)
class Job:
    """Work by name, and its arguments as JSON. The function gets a `child.Channel` first."""

    work: str  # "gymnast.module:function", or a file of ours where Gymnast is not installed: "/path/file.py:function"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    python: str | None = None  # another interpreter than this one
    packages: tuple[str, ...] = ("gymnast",)  # that may be named
    cores: int = 1  # that it keeps busy: a cluster reserves them
    resources: Resources = field(default_factory=Resources)
    # A folder of this machine to work in; the function gets it as `folder`. A job that runs elsewhere works in a copy:
    # what it writes is brought back as it is written. If its node dies, it is started again elsewhere with these files.
    folder: Path | None = None

    def __post_init__(self) -> None:
        place, colon, name = self.work.rpartition(":")
        inside = place.partition(".")[0] in self.packages
        if not (colon and name.isidentifier() and (inside or Path(place).is_relative_to(PACKAGE))):
            raise UserError(f"job {self.work!r}: must be 'module:function' inside {' or '.join(self.packages)}.")

    @property
    def call(self) -> dict[str, Any]:
        """All arguments of the function but its channel."""
        return dict(self.arguments) if self.folder is None else {**self.arguments, "folder": str(self.folder)}


def how_it_ended(code: int | None) -> str:
    """An exit code in words; a process killed by signal 9 has -9."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    known = {number.value: f" ({number.name})" for number in signal.Signals}
    return f"was killed by signal {-code}{known.get(-code, '')}"


class Worker:
    """A process that does one job after another. `give` and `hear` may be called from two threads."""

    def __init__(
        self,
        job: Job,
        *,
        name: str = "",
        niceness: int = 0,
        threads: int | None = None,
        log: Path | None = None,
        outlives: bool = False,
    ) -> None:
        """`name`: for messages. `threads`: of its arithmetic. `log`: takes what it prints; None: only its last line is
        kept, for the message about its end."""
        self.free = False  # whether it waits for a job
        self._name = name
        self._buffer = b""
        environment = dict(os.environ)
        if job.python is None:  # it must find the same modules
            environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        if threads is not None:
            environment["OMP_NUM_THREADS"] = str(threads)
        self._last_words = log is None
        self._log = tempfile.TemporaryFile() if log is None else open(log, "ab")  # noqa: SIM115, closed by close()
        try:
            # A process group of its own: Ctrl-C is for this process. Not a session of its own: where the kernel
            # shares out time by session, a low priority would count for nothing against another one.
            self._process = subprocess.Popen(
                [job.python or sys.executable, str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
                process_group=0,
            )
        except OSError as error:
            self._log.close()
            raise self._lost(f"its process could not be started: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._answers = select.poll()
        self._answers.register(self._output, select.POLLIN)
        self._send({"work": job.work, "arguments": job.call, "niceness": niceness, "outlives": outlives})

    @property
    def pid(self) -> int:
        return self._process.pid

    def give(self, job: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> None:
        """Does not block if the worker is free. That it is gone is said by `hear`."""
        data = b""
        if tensors:
            from safetensors.torch import save

            data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
        self.free = False
        self._send({**job, "tensors": len(data)}, data)

    def hear(self, seconds: float | None = 0.0) -> Event | None:
        """Its next answer, or None if there is none within that time. `seconds` None: waits as long as it takes."""
        until = monotonic() + (seconds or 0.0)
        while b"\n" not in self._buffer:
            left = None if seconds is None else 1000 * max(0.0, until - monotonic())
            if not self._answers.poll(left):
                return None
            data = os.read(self._output.fileno(), 1 << 16)
            if not data:
                raise self._end()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        ((kind, data),) = json.loads(line).items()
        if kind == "error":
            raise self._lost(data)
        self.free = kind in ("ready", "result")
        return Event(kind, data)

    def wait_for(self, kind: str) -> dict[str, Any]:
        """The data of its next answer of that kind, as long as it takes."""
        while True:
            event = self.hear(None)
            if event is not None and event.kind == kind:
                return event.data

    def ready(self) -> dict[str, Any]:
        return self.wait_for("ready")

    def ask(self, **job: Any) -> dict[str, Any]:
        """The result of a job."""
        self.give(job)
        return self.wait_for("result")

    def finish(self) -> None:
        """There are no more jobs. A worker that `outlives` this process ends when it has done those it has."""
        with suppress(OSError):
            self._input.close()

    def wait(self, seconds: float | None = None) -> int:
        """Until it ends on its own; its exit code."""
        return self._process.wait(seconds)

    def kill(self) -> None:
        """At once, with the processes it has started: they are one group."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # it is just gone
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self._process.wait()
        self.finish()
        self._output.close()
        self._log.close()

    def _send(self, message: Mapping[str, Any], data: bytes = b"") -> None:
        with suppress(OSError, ValueError):  # it is gone, or closed by another thread: whoever waits learns why
            self._input.write(json.dumps(message).encode() + b"\n" + data)
            self._input.flush()

    def _lost(self, why: str, killed: bool = False) -> WorkerLost:
        return WorkerLost(f"{self._name}: {why}" if self._name else why, killed)

    def _end(self) -> WorkerLost:
        try:
            code = self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return self._lost("its process does not answer")
        said = ""
        if self._last_words:
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            said = f": {lines[-1]}" if lines else ""
        return self._lost(f"its process {how_it_ended(code)}{said}", killed=code < 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
