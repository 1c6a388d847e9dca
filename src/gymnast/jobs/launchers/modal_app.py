"""What Gymnast runs on Modal: one function, which does a job and keeps its files on a volume.

    /NAME/files/...      the job's folder
    /NAME/index.json     what is in it: a stamp for each file, see `jobs/mirror.py`
    /NAME/events.jsonl   what the job has reported, the end last
    /NAME/core_seconds   cores times seconds so far, preempted attempts among them
    /NAME/stop           somebody wants it to end

Modal starts the function again on the same input after a preemption. It then finds its files and goes on from them. The
job works in a folder outside the volume: a volume with open files cannot be reloaded, and reloading shows the stop.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import modal

from gymnast.core.errors import DISTRIBUTION
from gymnast.core.files import write_atomic, write_json
from gymnast.core.machine import RESERVED
from gymnast.jobs.mirror import Known, apply, changes
from gymnast.jobs.worker import Event, Job, Worker, WorkerLost

APP, FUNCTION, VOLUME, MOUNT = "gymnast", "run_job", "gymnast-runs", "/gymnast-runs"
COMMIT_SECONDS = 5.0  # between two commits of files that have changed
LONGEST = 24 * 3600  # seconds of one attempt: Modal's limit
# A container has those of these that are installed here
EXTRAS = ("classic", "box2d", "mujoco", "envpool", "atari", "vizdoom", "retro", "minatar", "video")
SOURCES = "GYMNAST_MODAL_SOURCES"  # an environment variable: modules with envs of one's own, separated by commas


def requirements() -> list[str]:
    """Our dependencies and the envs that are installed here, at the versions they have here."""
    if not modal.is_local():  # in a container this file is read again, and nothing is built
        return []
    found = []
    for line in metadata.requires(DISTRIBUTION) or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        name = re.match(r"[\w.-]+(\[[\w,-]+\])?", line)
        if name is None or name[0].startswith(DISTRIBUTION) or (extra is not None and extra[1] not in EXTRAS):
            continue
        try:
            version = metadata.version(name[0].partition("[")[0]).partition("+")[0]  # without what a build adds
            found.append(f"{name[0]}=={version}")
        except metadata.PackageNotFoundError:
            continue
    return sorted(set(found))


def sources() -> list[str]:
    """Modules of this machine that a container has as well."""
    return ["gymnast", *filter(None, map(str.strip, os.environ.get(SOURCES, "").split(",")))]


image = (
    modal.Image.debian_slim(python_version=f"{sys.version_info.major}.{sys.version_info.minor}")
    .pip_install(*requirements())
    .add_local_python_source(*sources(), ignore=["**/*.pyc"])  # with presets and pages, which are no Python
)
volume = modal.Volume.from_name(VOLUME, create_if_missing=True, version=2)
app = modal.App(APP, image=image)


@app.function(
    name=FUNCTION, volumes={MOUNT: volume}, timeout=LONGEST, retries=modal.Retries(max_retries=3), max_containers=100
)
def run_job(
    name: str, work: str, arguments: dict[str, Any], packages: list[str], cores: int, folder: str | None
) -> None:
    """`folder`: the name of the job's folder; None: it has none."""
    place = Path(MOUNT) / name
    scratch = Path(tempfile.mkdtemp()) / (folder or "none")
    os.environ[RESERVED] = str(cores)
    apply(scratch, changes(place / "files", {}), {})
    job = Job(work, arguments, packages=tuple(packages), cores=cores, folder=scratch if folder else None)
    with Worker(job, threads=cores) as worker:
        Attempt(place, scratch, worker, cores).carry_out()
    shutil.rmtree(scratch.parent, ignore_errors=True)


class Attempt:
    """One container's part of a job."""

    def __init__(self, place: Path, folder: Path, worker: Worker, cores: int) -> None:
        self.place, self.folder, self.worker, self.cores = place, folder, worker, cores
        self.known: Known = {}
        self.before = float((place / "core_seconds").read_text()) if (place / "core_seconds").exists() else 0.0
        self.began = time.monotonic()
        place.mkdir(parents=True, exist_ok=True)

    def carry_out(self) -> None:
        self.report(Event("placed", {"node": f"container {os.environ.get('MODAL_TASK_ID', 'here')}"}))
        committed = 0.0
        while True:
            try:
                event = self.worker.hear(1.0)
            except WorkerLost as lost:
                event = Event("error", {"why": str(lost)})
            is_last = event is not None and event.kind in ("result", "error")
            if event is not None and not is_last:
                self.report(event)
            if is_last or time.monotonic() - committed >= COMMIT_SECONDS:
                self.keep()
                volume.commit()
                if is_last and event is not None:  # after its files: a commit of several files is not one moment
                    self.report(Event(event.kind, {**event.data, "core_seconds": self.core_seconds}))
                    volume.commit()
                committed = time.monotonic()
                volume.reload()
            if is_last:
                return
            if (self.place / "stop").exists():
                os.kill(self.worker.pid, signal.SIGINT)

    @property
    def core_seconds(self) -> float:
        return self.before + self.cores * (time.monotonic() - self.began)

    def report(self, event: Event) -> None:
        with open(self.place / "events.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps([event.kind, event.data]) + "\n")

    def keep(self) -> None:
        """The job's files onto the volume, and then what they are."""
        apply(self.place / "files", changes(self.folder, self.known), self.known)
        write_json(self.place / "index.json", {"files": {name: list(stamp) for name, stamp in self.known.items()}})
        write_atomic(self.place / "core_seconds", str(self.core_seconds).encode())
