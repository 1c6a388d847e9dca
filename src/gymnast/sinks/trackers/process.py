"""The worker a tracker lives in. Jobs are messages; the one event is the note that says where the run can be seen.

`steps.txt` among the tracker's files has a line for each message that got through. A run that is continued, or that
starts with another's history, first passes on what metrics.jsonl has and the tracker has not. Nothing is repeated.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.core.files import write_atomic
from gymnast.metrics.rows import STEP
from gymnast.sinks.base import RunInfo
from gymnast.sinks.jsonl import read_lines, read_metrics
from gymnast.sinks.trackers.tracker import Opening, Tracker

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel


def track(channel: Channel, tracker: str, name: str, run: dict[str, Any]) -> dict[str, Any]:
    """`tracker`: its class, as "module:Class". Ends when there are no more messages: the run is over, or is gone."""
    info = RunInfo.from_json(run)
    module, _, attribute = tracker.partition(":")
    kind: type[Tracker] = getattr(importlib.import_module(module), attribute)
    folder = info.place / "trackers" / name
    folder.mkdir(parents=True, exist_ok=True)
    steps = _steps(folder / "steps.txt")
    if kind.rewinds:
        steps = [step for step in steps if step <= info.start_step]
        write_atomic(folder / "steps.txt", "".join(f"{step}\n" for step in steps).encode())
    last = max(steps, default=-1)
    opened = kind(Opening(info, folder, last, len(steps)))
    channel.event(note=opened.note)
    status = "killed"  # unless the run says how it ended
    with open(folder / "steps.txt", "ab", buffering=0) as through:
        for do, step, data in _all(info, channel):
            if do == "close":
                status = data
            elif step > last:
                getattr(opened, do)(step, data)
                through.write(f"{step}\n".encode())
    opened.close(status)
    return {}


def _all(info: RunInfo, channel: Channel) -> Iterator[tuple[str, int, Any]]:
    """The run's history up to where this process took over, then what comes."""
    records = {line[STEP]: line for line in read_lines(info.place / "diagnostics.jsonl")}
    for row in read_metrics(info.metrics_path):
        step = int(row[STEP])
        if step <= info.start_step:
            yield "write", step, row
            if step in records:
                yield "diagnostics", step, {key: value for key, value in records[step].items() if key != STEP}
    for message, _ in channel:
        yield message["do"], message["step"], message["data"]


def _steps(path: Path) -> list[int]:
    """Whole lines only: the last one may have been cut by a kill."""
    if not path.is_file():
        return []
    return [int(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n") and line.strip()]
