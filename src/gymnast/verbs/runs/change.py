"""`gymnast runs stop|tag`: what can be changed of a run from outside."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Sequence
from typing import Any

from gymnast.core.errors import UserError
from gymnast.runs.references import Run, RunInfo
from gymnast.verbs.remote.start import bring
from gymnast.verbs.result import Facts


def stop_runs(runs: Sequence[Run]) -> Facts:
    """As Ctrl-C would: each ends after its current update with a checkpoint, and can be resumed."""
    for run in runs:
        info = run.read()
        if info.status != "running":
            raise UserError(f"run {run.id} is not being trained: it is {info.status}.")
        if info.on is None and info.host != socket.gethostname():
            raise UserError(f"run {run.id} is trained on {info.host}; stop it there.")
        try:
            run.stopping_path.touch(exist_ok=False)  # a second signal would end it at once, without a checkpoint
        except FileExistsError:
            raise UserError(f"run {run.id} is stopping already: it ends after its current update.") from None
        if info.on is None:
            # read() has just found that process holding the run's lock; a job in the background may ignore Ctrl-C
            os.kill(info.pid, signal.SIGTERM)
        else:
            bring(run)  # whoever follows it sees the file; where nobody does, this does
    return Facts({"stopped": [run.id for run in runs]})


def tag_runs(runs: Sequence[Run], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Facts:
    """Tags are kept in the order in which they were added."""
    for word in add:
        if not re.fullmatch(r"[^\s,]{1,60}", word):
            raise UserError(f"tag {word!r}: a tag is one word of at most 60 letters without ','.")

    def changed(info: RunInfo) -> dict[str, Any]:
        kept = [word for word in info.tags if word not in remove]
        return {"tags": list(dict.fromkeys([*kept, *add]))}

    for run in runs:
        run.edit(changed)
    return Facts({"tags": {run.id: run.read().tags for run in runs}})
