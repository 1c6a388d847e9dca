"""The worker's end. Run by path, in any interpreter, so nothing of Gymnast is imported here but what a job names.

Standard input brings lines of JSON. The first says what to do; each later one is a job, followed by as many bytes of
tensors (safetensors) as it says. Every answer is one line on standard output: {"ready": {...}}, {"event": {...}},
{"result": {...}} or {"error": "one line"}. Whatever is printed goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from importlib import util
from typing import Any, BinaryIO

PLAIN = {"UserError", "EnvFailure"}  # what these say is written for users; any other error is named by its type


def end_with_parent(pipe: int) -> None:
    """Ends this process, even in the middle of work, when nobody is left to hold the other end of `pipe`."""

    def watch() -> None:
        hang_up = select.poll()
        hang_up.register(pipe, select.POLLHUP)  # reads nothing: what comes through the pipe is for somebody else
        hang_up.poll()
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave_signals_to_parent() -> None:
    """Ctrl-C, SIGTERM and SIGHUP often go to all processes of a run: the parent saves it and then ends its workers.

    By a handler: what is ignored by SIG_IGN stays ignored in programs that an env starts, and these end with SIGTERM.
    What is ignored already, by nohup, stays so for them.
    """
    for number in STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)
            signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


class Channel:
    """What a work function talks through: an iterator of (job, tensors), and three kinds of answers."""

    def __init__(self, jobs: BinaryIO, answers: BinaryIO) -> None:
        self._jobs, self._answers = jobs, answers

    def __iter__(self) -> Channel:
        return self

    def __next__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        line = self._jobs.readline()
        if not line.endswith(b"\n"):  # the end, or half a line of a parent that was killed
            raise StopIteration
        job = json.loads(line)
        size = job.pop("tensors", 0)
        if not size:
            return job, {}
        from safetensors.torch import load

        return job, load(self._jobs.read(size))

    def ready(self, **facts: Any) -> None:
        """It waits for a job."""
        self.answer("ready", facts)

    def event(self, **facts: Any) -> None:
        """What happened on the way to a result."""
        self.answer("event", facts)

    def result(self, result: Mapping[str, Any]) -> None:
        """The job is done; it waits for the next."""
        self.answer("result", result)

    def answer(self, kind: str, data: Any) -> None:
        try:
            self._answers.write(json.dumps({kind: data}).encode() + b"\n")
            self._answers.flush()
        except BrokenPipeError:  # the parent is gone; a worker that outlives it finishes all the same
            return


def function_named(work: str) -> Callable[..., Any]:
    """Of "package.module:function", or of "/path/of/a/file.py:function" where the package is not installed."""
    place, _, name = work.rpartition(":")
    if not place.endswith(".py"):
        return getattr(importlib.import_module(place), name)
    spec = util.spec_from_file_location(os.path.basename(place)[:-3], place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    if any(kind.__name__ in PLAIN for kind in type(error).__mro__):
        return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"  # what, and the end of an env's traceback
    return f"{type(error).__name__}: {lines[0]}" if lines[0] else type(error).__name__


def serve() -> int:
    """Does what the first line names. Its function gets the channel and its arguments; what it returns is a result."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # work that reads or prints must not meet the protocol,
    os.dup2(2, 1)  # and neither do the processes it starts, which would keep its pipes open
    channel = Channel(jobs, answers)
    leave_signals_to_parent()
    try:
        opening, _ = next(channel)
        if not opening["outlives"]:
            end_with_parent(jobs.fileno())
        os.nice(opening["niceness"])
        result = function_named(opening["work"])(channel, **opening["arguments"])
        if result is not None:
            channel.result(result)
    except Exception as error:  # whatever the work raises: the log has all of it, the parent gets one line
        traceback.print_exc()
        channel.answer("error", one_line(error))
        return 1
    return 0


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]  # our names hide nobody's
    sys.exit(serve())
