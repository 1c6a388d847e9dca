"""Runs that a page starts: processes of their own, which go on when Studio ends."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from gymnast.core.errors import UserError
from gymnast.core.files import read_bytes
from gymnast.core.text import printable, words_of
from gymnast.runs.references import Run

OUTPUT = "output.txt"  # in the run's folder: what its process printed
STARTABLE, OPTIONS = ("train", "resume"), ("--set", "--seed", "--steps", "--tag")
SOON = 0.05  # seconds between two looks for the new run
PATIENCE = 300.0  # seconds until a process must have made its run
UNSEEN = 2.0  # seconds by which the clocks of a file system and a process may differ


def startable(command: str) -> list[str] | None:
    """The words behind `gymnast` of a command that a page may start; None: it may not. Commands come from files: only
    a training or its continuation is taken, with options that choose no other file or folder."""
    words = words_of(command)
    known = len(words) > 2 and words[0] == "gymnast" and words[1] in STARTABLE and not words[2].startswith("-")
    options = words[3:]
    pairs = len(options) % 2 == 0 and all(option in OPTIONS for option in options[::2])
    return words[1:] if known and pairs else None


def start_process(words: Sequence[str], runs_dir: Path) -> str:
    """`gymnast WORDS`, away from this terminal; the id of the run that it trains. UserError: why there is none."""
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {runs_dir}: {error.strerror}.") from error
    output = runs_dir / f".output-{secrets.token_hex(4)}.txt"
    command = [sys.executable, "-m", "gymnast", *words, "--quiet", "--runs-dir", str(runs_dir.resolve())]
    began = time.time()
    with open(output, "wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, close_fds=True
        )
    threading.Thread(target=process.wait, daemon=True).start()  # so that its end is noticed
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (run := _run_of(process.pid, runs_dir, began - UNSEEN)) is not None:
            os.replace(output, run.path / OUTPUT)  # the process keeps writing into it under its new name
            return run.id
        if process.poll() is not None:
            lines = [printable(line) for line in read_bytes(output).decode(errors="replace").splitlines()]
            output.unlink(missing_ok=True)
            said = [line.removeprefix("gymnast: ") for line in lines if line.strip()]
            raise UserError("\n".join(said[-20:]) or f"it ended at once with exit code {process.returncode}.")
        time.sleep(SOON)
    process.terminate()
    raise UserError(f"no run began within {PATIENCE:.0f} seconds.")


def _run_of(pid: int, runs_dir: Path, since: float) -> Run | None:
    """The run that a process trains. Its folder was changed lately: others need not be read."""
    with os.scandir(runs_dir) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                continue
            run = Run(Path(entry.path))
            if entry.stat().st_mtime < since or not os.path.lexists(run.path / "run.json"):
                continue
            try:
                info = run.read()
            except UserError:
                continue
            if info.pid == pid and info.updated >= _iso(since):
                return run
    return None


def _iso(moment: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
