"""A run that is trained elsewhere on this screen, from the files that arrive in its folder here."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from gymnast.alerts.alert import read_alerts
from gymnast.core.pulse import DONE, Pulse
from gymnast.core.text import printable
from gymnast.jobs.worker import Worker, WorkerLost
from gymnast.metrics.rows import step_of
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import Run
from gymnast.sinks.base import RunInfo
from gymnast.sinks.console.console import ConsoleSink
from gymnast.sinks.jsonl import read_metrics

if TYPE_CHECKING:
    from gymnast.config import RunConfig

LOOK_SECONDS = 0.3


def watch(run: Run, config: RunConfig, worker: Worker | None, quiet: bool) -> str | None:
    """Until it has ended; why, where the process that brings its files says so."""
    threshold = RunFacts(run).threshold
    info = RunInfo(run.path, run.id, threshold=threshold, quiet=quiet, config=config.model_dump(mode="json"))
    console = ConsoleSink(info)
    pulse, shown, seen, noted = Pulse(), 0, 0, 0  # rows, bytes of metrics, bytes of the log
    why, over = None, False  # `over`: the process that brings its files has ended
    console.follow(pulse)
    try:
        while not over and run.live():
            try:
                if worker is None:
                    time.sleep(LOOK_SECONDS)
                elif (event := worker.hear(LOOK_SECONDS)) is not None and "placed" in event.data:
                    reason = f"{event.data['why']}; " if event.data["why"] else ""
                    console.notice(f"{reason}it goes on, on {event.data['placed']}")
                elif event is not None and event.kind == "result":
                    over = True
            except WorkerLost as lost:
                why, over = str(lost), True
            noted = show_notices(run, console, noted)
            if run.metrics_path.exists() and (size := run.metrics_path.stat().st_size) != seen:
                seen = size
                rows = read_metrics(run.metrics_path)
                shown = min(shown, len(rows))  # a run that goes on after its node has died has lost its last rows
                for row in rows[shown:]:
                    step = int(step_of(row, "time/total_timesteps"))
                    pulse.begin("training", step=step)
                    console.write(step, row)
                shown = len(rows)
            if run.alerts_path.exists():
                console.alerts(0, read_alerts(run.alerts_path))
        if worker is not None and not over:  # the folder says that it has ended; why comes a moment later
            worker.wait_for("result")
        show_notices(run, console, noted)  # of a run that has ended before anybody looked
        pulse.begin(DONE)
    except WorkerLost as lost:
        why = str(lost)
    finally:
        console.close()
    return why


def show_notices(run: Run, console: ConsoleSink, begin: int) -> int:
    """What the run has said there, as it would have here: dated lines of its log, from this byte on. Where it ends."""
    if not run.log_path.exists():
        return begin
    with open(run.log_path, "rb") as file:
        file.seek(begin)
        text, newline, _ = file.read().rpartition(b"\n")
    for line in text.decode(errors="replace").splitlines():
        if found := re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (.*)", line):  # no traceback
            here = re.sub(rf"\S*/{re.escape(run.path.name)}", lambda there: str(run.path), found[1])
            console.notice(printable(here))
    return begin + len(text) + len(newline)
