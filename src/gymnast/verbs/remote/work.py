"""What a training does on the machine that `--on` has found.

It can be started again at any time with the same arguments and the files that it has written so far: after its node has
died, or after a preemption.
"""

from __future__ import annotations

import base64
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError
from gymnast.metrics.rows import STEP
from gymnast.runs import checkpoint
from gymnast.runs.archive import import_run
from gymnast.runs.checkpoint import Checkpoint
from gymnast.runs.folder import Run
from gymnast.sinks.jsonl import read_metrics
from gymnast.training.build import build
from gymnast.training.record import report, summary_of
from gymnast.training.state import restore
from gymnast.verbs.train import Order, begin, carry_out, resume, why_over

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel
    from gymnast.training.rows import Observer, Row


def train(
    channel: Channel,
    folder: str,
    order: dict[str, Any] | None = None,
    again: dict[str, Any] | None = None,
    observer: Observer | None = None,
) -> dict[str, Any]:
    """Trains the run whose folder that is: from its last checkpoint where it has one, else by an `order` for a new run
    or by what is to be done `again`, from another run's checkpoint with other settings."""
    run = Run(Path(folder))
    token = run.path.name.partition("-")[0]
    if run.checkpoint_path("last").exists():
        if run.read().status != "finished":  # its node died after its end, before the last files had left it
            go_on(run, observer)
    elif order is not None:
        shutil.rmtree(run.path, ignore_errors=True)
        carry_out(*begin(Order(**order), run.path.parent, token), quiet=True, observer=observer)
    elif again is not None:
        shutil.rmtree(run.path, ignore_errors=True)
        with tempfile.TemporaryDirectory() as place:
            zipped = Path(place, "origin.zip")
            zipped.write_bytes(base64.b64decode(again["origin"]))
            origin = import_run(zipped, Path(place))
            ref = f"{origin.path}/{again['checkpoint']}"
            resume(ref, again["overrides"], run.path.parent, again["reset"], True, again["steps"], token=token)
    else:
        raise UserError(f"run {run.id} has no checkpoint to go on from.")
    return {"run": run.id}


def train_and_count(channel: Channel, folder: str, order: dict[str, Any]) -> dict[str, Any]:
    """The same, and an event for each row, with the steps made so far."""

    def count(row: Row) -> None:
        channel.event(steps=int(row[STEP]))

    return train(channel, folder, order, observer=count)


def go_on(run: Run, observer: Observer | None = None) -> None:
    """Where it was when its last checkpoint left its machine. Whoever wrote these files is gone."""
    info = run.read()
    if info.status == "running":
        run.update(pid=0, host=socket.gethostname(), on=None)
    saved = checkpoint.load(run.checkpoint_path("last"))
    if why_over(run, saved.state, saved.config) is None:
        resume(f"{run.path}/last", [], run.path.parent, quiet=True, observer=observer)
    else:
        run.finish("finished", summary_at_the_end(run, saved))
        report(run)


def summary_at_the_end(run: Run, saved: Checkpoint) -> dict[str, Any]:
    """Of a run whose machine died between its last checkpoint and its end: what it would have said itself."""
    session = build(saved.config, saved.state["threshold"])
    try:
        restore(session, saved.tensors, saved.state)
        rows = read_metrics(run.metrics_path)
        said = next((row for row in reversed(rows) if "verdict/mean" in row), None)
        record, stop = session.judge.record, session.config.stop
        stopped = stop.on_solved and (record.on_target or (record.solved and stop.target is None))
        seconds, steps = session.clock.elapsed, session.counters.env_steps
        ended = {
            "seconds": round(seconds, 3),
            "fps": round(steps / seconds, 1),
            "solved": record.solved,
            "on_target": record.on_target,
            "stop_reason": ("solved" if stop.target is None else "target") if stopped else "steps",
        }
        return summary_of(session, None) | ended | ({} if said is None else verdict_of(said))
    finally:
        session.close()


def verdict_of(row: dict[str, float]) -> dict[str, Any]:
    mean, value, regret = row["verdict/mean"], row.get("verdict/exact_value"), row.get("verdict/regret")
    return {
        "eval_mean": mean,
        "score": mean,
        "interval": [row["verdict/low"], row["verdict/high"]],
        "episodes": int(row["verdict/episodes"]),
        "exact_value": value,
        "regret": regret,
        "optimum": None if value is None or regret is None else value + regret,
    }
