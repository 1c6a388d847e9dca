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
from gymnast.core.trust import allow
from gymnast.metrics.rows import STEP
from gymnast.runs.archive import import_run
from gymnast.runs.folder import Run
from gymnast.verbs.train import Order, begin, carry_out, resume

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
            origin = import_run(zipped, Path(place)).run
            allow(origin.path)
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
    allow(run.path)  # its user started it, on another machine
    info = run.read()
    if info.status == "running":
        run.update(pid=0, host=socket.gethostname(), on=None)
    resume(f"{run.path}/last", [], run.path.parent, quiet=True, observer=observer)
