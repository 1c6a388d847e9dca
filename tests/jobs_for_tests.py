"""What workers of the tests do."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.files import write_atomic, write_json

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel


def double(channel: Channel, number: float) -> dict[str, Any]:
    """One job, with an event on the way."""
    channel.event(number=number)
    return {"double": 2 * number}


def calculate(channel: Channel, factor: float) -> None:
    """One job after another."""
    print("this is no answer")
    channel.ready(factor=factor)
    for job, tensors in channel:
        print("nor is this")
        result = {name: (factor * tensor).sum().item() for name, tensor in tensors.items()}
        channel.result(result | {"negative": -job["number"]})


def surroundings(channel: Channel) -> dict[str, Any]:
    return {
        "niceness": os.nice(0),
        "group": os.getpgrp(),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "path": sys.path,
        "input": sys.stdin.read(),
    }


def meet(channel: Channel, place: str, count: int) -> dict[str, Any]:
    """Ends when so many are there, with the GPUs that it may use."""
    Path(place, str(os.getpid())).touch()
    for _ in range(3000):
        if len(list(Path(place).iterdir())) >= count:
            return {"gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}
        time.sleep(0.02)
    raise UserError("the others did not come.")


def fail(channel: Channel, how: str) -> None:
    if how == "mistake":
        raise UserError("env.id: no such env.")
    if how == "env":
        raise EnvFailure(
            "Crashing-v0: env 0 crashed in step.\nTraceback:\n  a line\nRuntimeError: the gearbox is on fire"
        )
    if how == "other":
        raise ConnectionError("the server is down\nand has more to say")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    print("these are my last words", flush=True)
    os._exit(7)


def sleep(channel: Channel, file: str) -> None:
    """Says that it is there, and works for ever."""
    Path(file).write_text(str(os.getpid()))
    channel.ready()
    while True:
        time.sleep(0.01)


def finish(channel: Channel, file: str) -> dict[str, Any]:
    """Writes down every job, and that there are no more."""
    with open(file, "a", encoding="utf-8") as out:
        for job, _ in channel:
            print(job["number"], file=out, flush=True)
        print("end", file=out)
    return {}


def count(channel: Channel, folder: str, until: int, lives: int | None = None) -> dict[str, Any]:
    """Counts in its folder, a row a number, and goes on from its checkpoint. `lives`: numbers until its process is
    killed, again and again."""
    place = Path(folder)
    checkpoint, rows = place / "checkpoints" / "last.json", place / "rows.jsonl"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    begin = json.loads(checkpoint.read_text())["number"] if checkpoint.exists() else 0
    kept = rows.read_text().splitlines()[:begin] if rows.exists() else []
    assert len(kept) == begin, f"{len(kept)} rows for a checkpoint at {begin}"
    write_atomic(rows, "".join(f"{line}\n" for line in kept).encode())
    for number in range(begin, until):
        with open(rows, "a", encoding="utf-8") as file:
            file.write(f"{number}\n")
        write_json(checkpoint, {"number": number + 1})
        channel.event(number=number + 1)
        if number + 1 - begin == lives:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)
    return {"from": begin}


def hang_in_an_env(channel: Channel) -> None:
    """Says which processes its envs have, and steps them into their trouble."""
    from gymnast.config import EnvConfig
    from gymnast.envs.make import make_vec

    name = "tests.envs_for_tests:test/Hanging-v0"
    config = EnvConfig(id=name, engine="process", step_timeout=3600.0, kwargs={"at": 1})
    vec = make_vec(config, 2, "train", threads=2)
    vec.reset(0)
    channel.event(pids=[process.pid for process in vec._processes])  # type: ignore[attr-defined]
    vec.step(np.zeros(2, np.int64))
