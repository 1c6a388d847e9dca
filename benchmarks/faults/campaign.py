"""What the fault campaigns here share: commands in forked children with limits of time and memory, and what is bad.

A campaign imports torch once. Each command runs in a fork of that process, as `gymnast ARGS` after its imports, so that
a thousand of them take minutes. A child that exceeds its time is killed with all that it started, and counts as a hang.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NoReturn

IMPORTED = ("gymnast.cli", "gymnast.verbs.train", "gymnast.training.loop", "gymnast.verbs.eval", "gymnasium", "torch")
SECONDS, MEMORY = 60.0, 6 << 30  # of a command, unless a campaign says otherwise
SOON = 0.005  # seconds between two looks at a child
GRACE = 2.0  # seconds for what a killed child had started
KINDS = ("traceback", "hang", "signal", "silent", "escape", "memory")  # of bad answers, as the table shows them


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it printed."""

    words: Sequence[str]
    code: int | None  # None: it was still running when its time was over; negative: a signal ended it
    out: str
    err: str
    seconds: float

    @property
    def bad(self) -> list[str]:
        """What no command may do, whatever it is given."""
        said = self.out + self.err
        found = {
            "traceback": "Traceback (most recent call last)" in said,
            "hang": self.code is None,
            "signal": self.code is not None and self.code < 0,
            "silent": self.code not in (0, None) and not said.strip(),
            "escape": "\x1b" in said.replace("\x1b[?25h", ""),  # the cursor is shown again at the end of a bar
            "memory": "not enough memory" in said,
        }
        return [kind for kind in KINDS if found[kind]]


class Child:
    """One command in a process group of its own, which a campaign may kill at any moment."""

    def __init__(
        self, words: Sequence[str | Path], folder: Path, memory: int = MEMORY, env: Mapping[str, str] | None = None
    ) -> None:
        self.words = [str(word) for word in words]
        self._place = tempfile.TemporaryDirectory(prefix="campaign-")
        self._streams = [Path(self._place.name, name) for name in ("out", "err")]
        self._began, self._code = time.monotonic(), -1
        self.ended = False
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(self.words, folder, memory, env, self._streams)

    def poll(self) -> bool:
        """Whether it has ended."""
        if not self.ended:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ended, self._code = True, os.waitstatus_to_exitcode(status)
        return self.ended

    def kill(self, number: int = signal.SIGKILL, group: bool = False) -> None:
        """Sends a signal to it or, with `group`, to all that it started as well."""
        if not self.poll():
            (os.killpg if group else os.kill)(self.pid, number)

    def wait(self, seconds: float = SECONDS) -> Answer:
        """Its answer; a command that takes longer is killed with all that it started, and has no exit code."""
        until = self._began + seconds
        while not self.poll() and time.monotonic() < until:
            time.sleep(SOON)
        late = not self.poll()
        if late:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.ended = True
        took = time.monotonic() - self._began
        out, err = (path.read_text(errors="replace") if path.exists() else "" for path in self._streams)
        self._place.cleanup()
        return Answer(self.words, None if late else self._code, out, err, took)

    def orphans(self) -> bool:
        """Whether something of its group is still running a moment after its end; what is, is killed."""
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return False
            time.sleep(SOON)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return True


def run(
    words: Sequence[str | Path],
    folder: Path,
    seconds: float = SECONDS,
    memory: int = MEMORY,
    env: Mapping[str, str] | None = None,
) -> Answer:
    """`gymnast WORDS` in a folder, until it ends or its time is over."""
    return Child(words, folder, memory, env).wait(seconds)


def prepare() -> None:
    """Imports what takes long, once; later forks share it."""
    for name in IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()


def _become(
    words: Sequence[str], folder: Path, memory: int, env: Mapping[str, str] | None, streams: Sequence[Path]
) -> NoReturn:
    """What the command is after its imports; never returns."""
    code = 70
    try:
        os.setsid()
        for stream, path in enumerate((Path(os.devnull), *streams)):
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            os.dup2(opened, stream)
            os.close(opened)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        sys.argv = ["gymnast", *words]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from gymnast.cli import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


@dataclass
class Tally:
    """Counts of a campaign, a row for each sort of fault, and the first examples of what was bad."""

    examples: int = 20
    trials: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    bad: Counter[tuple[str, str]] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)

    def trial(self, sort: str) -> None:
        self.trials[sort] += 1

    def answer(self, sort: str, number: int, answer: Answer) -> None:
        """A command's answer; `number`: of the trial, to make it again."""
        self.calls[sort] += 1
        for kind in answer.bad:
            lines = (answer.err or answer.out).strip().splitlines() or [""]
            self.found(sort, number, kind, f"gymnast {' '.join(answer.words)}: {lines[-1][:200]!r}")

    def found(self, sort: str, number: int, kind: str, said: str) -> None:
        """Something bad, of any kind."""
        self.bad[sort, kind] += 1
        if len(self.shown) < self.examples:
            self.shown.append(f"  {sort} {number}: {kind}: {said}")

    def print(self, write: Callable[[str], object] = print) -> int:
        """The table, then the examples; 1 if anything was bad, as an exit code."""
        kinds = list(dict.fromkeys([*KINDS, *(kind for _, kind in self.bad)]))
        write(_row("", ["trials", "calls", *kinds]))
        for sort in [*sorted(self.trials), "all"]:
            of = [name for name in self.trials if sort in (name, "all")]
            numbers = [sum(self.trials[name] for name in of), sum(self.calls[name] for name in of)]
            write(_row(sort, [*numbers, *(sum(self.bad[name, kind] for name in of) for kind in kinds)]))
        for line in self.shown:
            write(line)
        return int(bool(self.bad))


def _row(name: str, cells: Iterable[object]) -> str:
    return f"{name:<18}" + "".join(f"{cell!s:>11}" for cell in cells)
