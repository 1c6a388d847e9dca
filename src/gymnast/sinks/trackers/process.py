"""The process a tracker lives in: messages come as lines of JSON on standard input, answers go to standard output.

`steps.txt` beside the tracker's files has a line for each message that got through. A run that is continued, or that
starts with another's history, first passes on what metrics.jsonl has and the tracker has not. Nothing is repeated.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from gymnast.core.files import write_atomic
from gymnast.metrics.rows import STEP
from gymnast.sinks.jsonl import read_lines, read_metrics
from gymnast.sinks.trackers.sink import TrackedRun


@dataclass(frozen=True)
class Opening:
    """What a tracker begins with."""

    run: TrackedRun
    folder: Path  # its own, in the run's
    last: int  # env steps of the newest row it has already; -1: none
    logged: int  # messages it has had


class Tracker(Protocol):
    """Beside these: alert, diagnostics, checkpoint, video, each (step, data), where the tracker can show it."""

    package: str
    rewinds: bool  # whether rows after a step can be taken back, by opening it with that step as `last`
    note: str  # for the user: where it is to be seen

    def write(self, step: int, row: dict[str, float]) -> None: ...

    def close(self, status: str) -> None: ...


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever the package prints goes to the log

    def answer(**said: Any) -> None:
        try:
            print(json.dumps(said), file=answers, flush=True)
        except BrokenPipeError:
            return  # the run is gone; the tracker is finished all the same

    try:
        serve(sys.stdin, answer)
    except Exception as error:  # whatever a tracker's package raises: the run is told in one line, the log in full
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        answer(error=f"{type(error).__name__}: {lines[0]}")
        return 1
    answer(done=True)
    return 0


def serve(messages: IO[str], answer: Any) -> None:
    opening = json.loads(messages.readline())
    run = TrackedRun(**{**opening["run"], "folder": Path(opening["run"]["folder"])})
    module, _, attribute = opening["target"].partition(":")
    kind = getattr(importlib.import_module(module), attribute)
    folder = run.folder / "trackers" / opening["name"]
    folder.mkdir(parents=True, exist_ok=True)
    steps = _steps(folder / "steps.txt")
    if kind.rewinds:
        steps = [step for step in steps if step <= run.start_step]
        write_atomic(folder / "steps.txt", "".join(f"{step}\n" for step in steps).encode())
    last = max(steps, default=-1)
    tracker = kind(Opening(run, folder, last, len(steps)))
    answer(note=tracker.note)
    status = "killed"  # unless the run says how it ended
    with open(folder / "steps.txt", "ab", buffering=0) as through:
        for do, step, data in _all(run, messages):
            if do == "close":
                status = data
            elif step > last and (method := getattr(tracker, do, None)) is not None:
                method(step, data)
                through.write(f"{step}\n".encode())
    tracker.close(status)


def _all(run: TrackedRun, messages: IO[str]) -> Iterator[tuple[str, int, Any]]:
    """The run's history up to where this process took over, then what comes."""
    records = {line[STEP]: line for line in read_lines(run.folder / "diagnostics.jsonl")}
    for row in read_metrics(run.folder / "metrics.jsonl"):
        step = int(row[STEP])
        if step <= run.start_step:
            yield "write", step, row
            if step in records:
                yield "diagnostics", step, {key: value for key, value in records[step].items() if key != STEP}
    for line in messages:
        message = json.loads(line)
        yield message["do"], message.get("step", 0), message.get("data", message.get("status"))


def _steps(path: Path) -> list[int]:
    """Whole lines only: the last one may have been cut by a kill."""
    if not path.is_file():
        return []
    return [int(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n") and line.strip()]


if __name__ == "__main__":
    sys.exit(main())
