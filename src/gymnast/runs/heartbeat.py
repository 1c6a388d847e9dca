"""heartbeat.json: what a run does at this moment, for displays in other processes. It exists during training."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from gymnast.core.errors import UserError
from gymnast.core.files import TEMPORARY, numbers_to_json
from gymnast.core.typed import Count, Number, Text, read_typed


@dataclass(frozen=True)
class Heartbeat:
    """The names are those of `core/pulse.py`. Times are durations: clocks of two machines need not agree."""

    phase: Text  # collecting, learning, evaluating, verdict, score, saving, ...
    done: Count  # env steps, or episodes of an evaluation
    of: Count  # of so many; 0: nothing is counted
    probably: bool  # so many probably decide a verdict; otherwise that is the highest number that it may take
    steps: Count  # of the envs of an evaluation
    where: Text  # the stage or task that is evaluated
    mean: Number | None  # return of the episodes that have ended in it
    seconds: Number  # that the phase has taken so far
    left: Number | None  # until it has ended, at its own rate
    elapsed: Number  # since the run began
    env_steps: Count

    def write(self, path: Path) -> None:
        """Readers see the old one or the new one, and nothing is written where a link leads. It is not worth a wait for
        the disk."""
        temporary = path.with_name(f".{path.name}{TEMPORARY}")
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)) as file:
            file.write(json.dumps(numbers_to_json(asdict(self)), allow_nan=False).encode())
        os.replace(temporary, path)


@cache
def _kind() -> TypeAdapter[Heartbeat]:
    return TypeAdapter(Heartbeat)  # not at import: training, which only writes, starts without it


def read_heartbeat(path: Path) -> tuple[Heartbeat, float] | None:
    """The newest one, and how many seconds ago it was written."""
    with suppress(OSError, UserError):  # none yet, or damaged: nothing depends on it
        return read_typed(path, _kind()), max(0.0, time.time() - path.stat().st_mtime)
    return None
