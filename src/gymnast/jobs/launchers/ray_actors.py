"""What Gymnast runs on a Ray cluster: the worker of a job on some node, and the keeper of a detached job on the head.

NodeWorker   reserves the job's cores, starts the same worker process as on one machine, reports its answers and the
             files of its folder
on_nodes     runs a job on one NodeWorker after another: if a node or the job's process dies, the next one gets the
             files as they came last
Keeper       does that on the head node, for a job that goes on without whoever started it
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from gymnast.core.errors import Lost, UserError
from gymnast.core.machine import RESERVED, SAME_VERSIONS, other_versions, versions_to_share
from gymnast.core.ray_cluster import Head, last_line
from gymnast.jobs.mirror import FIRST, Change, Known, apply, changes, stamps
from gymnast.jobs.pool import ENDS
from gymnast.jobs.scratch import Scratch
from gymnast.jobs.worker import Event, Job, Worker, WorkerLost

NEWS_SECONDS = 0.5  # how long an actor waits for news before it answers with none
MOST_LOST = 100  # nodes and processes, by one job
MOST_RESTARTS = 3  # of a job's process that is killed, one after the other, without a new checkpoint between
KILLED = "killed"  # an event between these two: its process was, and its actor lives
HEAD = {"node:__internal_head__": 0.001}  # what only the head node has


class NodeWorker:
    """An actor: the worker process of a job, and its folder on this node."""

    def __init__(self, job: Job, files: list[Change], versions: Mapping[str, str]) -> None:
        self._other = other_versions(versions)
        self._scratch = Scratch()
        self._folder = self._scratch.path / (job.folder.name if job.folder else "none")
        apply(self._folder, files, {})
        self._given = stamps(self._folder)
        os.environ[RESERVED] = str(job.cores)
        self._job = replace(job, folder=job.folder and self._folder)

    def start(self) -> tuple[str, Known, str]:
        """The node's name, the files that were given to it, and what it has in other versions: then nothing begins."""
        node = ray.get_runtime_context().get_node_id()
        if not self._other:
            self._worker = Worker(self._job, threads=self._job.cores)
        return f"{ray.util.get_node_ip_address()} (node {node[:6]})", self._given, self._other

    def news(self, known: Known, stopping: bool) -> tuple[list[Event], list[Change]]:
        """Its answers since the last call, and what has changed in its folder."""
        events: list[Event] = []
        try:
            if stopping:  # again and again: before the first step nobody listens, and a second one does no harm
                os.kill(self._worker.pid, signal.SIGINT)
            event = self._worker.hear(NEWS_SECONDS)
            while event is not None:
                events.append(event)
                event = None if event.kind == "result" else self._worker.hear()
        except (WorkerLost, ProcessLookupError) as lost:
            again = isinstance(lost, WorkerLost) and lost.killed and not stopping
            events.append(Event(KILLED if again else "error", {"why": str(lost)}))
        return events, changes(self._folder, known)

    def leave(self) -> None:
        if not self._other:
            self._worker.close()
        self._scratch.remove()


class Control:
    """How whoever follows a job ends it, from any thread."""

    def __init__(self) -> None:
        self.stopping = threading.Event()  # it shall end as after Ctrl-C
        self.closed = threading.Event()  # it shall be gone


class ProcessKilled(Exception):
    """A job's process, by a signal that is not ours. The message says which."""

    def __init__(self, why: str, went_on: bool) -> None:
        """`went_on`: it had saved a checkpoint before."""
        super().__init__(why)
        self.went_on = went_on


def reserved(job: Job) -> dict[str, Any]:
    """Of Ray, for the actor of a job."""
    asked = job.resources
    return {
        "num_cpus": job.cores,
        "num_gpus": asked.gpu,
        "memory": asked.memory or None,
        "label_selector": dict(asked.labels) or None,
    }


def on_nodes(job: Job, control: Control, head: Head, versions: Mapping[str, str]) -> Iterator[Event]:
    """The events of a job; `placed` says on which node it goes on, and why if its process was killed. Its folder is
    brought up to date before each. `versions`: that a node must have."""
    why: str | None = None
    restarts = 0  # since the last checkpoint
    for _ in range(MOST_LOST):
        head.wait()
        files = [] if job.folder is None else changes(job.folder, {})
        with head.or_lost():
            actor: Any = ray.remote(**reserved(job))(NodeWorker).remote(job, files, versions)
        try:
            with head.or_lost():
                yield from _on_node(actor, job, control, head, why)
            return
        except ProcessKilled as killed:
            why, restarts = str(killed), 1 if killed.went_on else restarts + 1
            if restarts > MOST_RESTARTS:
                times = f"{restarts} times one after the other without a new checkpoint"
                yield Event("error", {"why": f"{why}, {times}"})
                return
        except ray.exceptions.RayActorError as error:
            why = None
            if error.actor_init_failed:  # no node would do better
                yield Event("error", {"why": f"it cannot be started there: {last_line(error)}"})
                return
        except ray.exceptions.RayTaskError as error:  # its disk is full, or the like
            yield Event("error", {"why": last_line(error)})
            return
        finally:
            with suppress(Lost, ray.exceptions.RayError), head.or_lost():
                if head.listens():
                    ray.kill(actor)
    yield Event("error", {"why": f"{MOST_LOST} nodes or processes died under it"})


def _on_node(actor: Any, job: Job, control: Control, head: Head, why: str | None) -> Iterator[Event]:
    started = actor.start.remote()
    while not head.has_answer(started, NEWS_SECONDS):
        if control.stopping.is_set() or control.closed.is_set():
            yield Event("error", {"why": "it was stopped before it began"})
            return
        head.has_nodes()
    node, known, other = head.answer(started)
    if other:
        _leave(actor, head)
        yield Event("error", {"why": f"{node} has {other}: {SAME_VERSIONS}"})
        return
    yield Event("placed", {"node": node} if why is None else {"node": node, "why": why})
    went_on = False
    while not control.closed.is_set():
        events, changed = head.answer(actor.news.remote(known, control.stopping.is_set()))
        if job.folder is not None:
            apply(job.folder, changed, known)
        went_on = went_on or any(change.path.startswith(FIRST) for change in changed)
        if events and events[-1].kind == KILLED:
            yield from events[:-1]
            _leave(actor, head)
            raise ProcessKilled(events[-1].data["why"], went_on)
        yield from events
        if events and events[-1].kind in ENDS:
            _leave(actor, head)
            return
    _leave(actor, head)
    yield Event("error", {"why": "it was stopped"})


def _leave(actor: Any, head: Head) -> None:
    """What it had to say has been heard: nothing is lost with a node that dies now."""
    with suppress(Lost, ray.exceptions.RayError):
        head.answer(actor.leave.remote())


class Keeper:
    """A detached actor on the head node: the files of a job, and the job on one node after another.

    If the head node dies, the cluster dies. If only this process does, Ray starts it again, and it goes on from the
    files on the disk.
    """

    def __init__(self, job: Job, files: list[Change], place: str, versions: Mapping[str, str]) -> None:
        assert job.folder is not None
        self._place = Path(place)
        self._folder = self._place / job.folder.name
        if not self._folder.exists():  # else Ray has started it again
            apply(self._folder, files, {})
        self._events: list[Event] = []
        self._control = Control()
        self._job, self._versions = replace(job, folder=self._folder), versions
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            for event in on_nodes(self._job, self._control, Head(None), self._versions):
                self._events.append(event)
        except Lost:  # whoever follows sees that as well, and can say more
            return
        except Exception as error:  # whatever Ray raises: whoever follows must learn of it
            self._events.append(Event("error", {"why": f"{type(error).__name__}: {last_line(error)}"}))

    def news(self, known: Known, heard: int) -> tuple[list[Event], list[Change]]:
        """The events after the first `heard`, and what has changed in the folder since `known`. Waits a moment where
        there is nothing new."""
        deadline = time.monotonic() + NEWS_SECONDS
        while True:
            events = self._events[heard:]  # before the files: the last event comes with the last files
            changed = changes(self._folder, known)
            if events or changed or time.monotonic() > deadline:
                return events, changed
            time.sleep(0.05)

    def stop(self) -> None:
        """As Ctrl-C would."""
        self._control.stopping.set()

    def forget(self) -> None:
        """Its files were brought home."""
        self._control.closed.set()
        shutil.rmtree(self._place, ignore_errors=True)


def keep(name: str, job: Job) -> Any:
    """Starts a detached job; its keeper's handle."""
    assert job.folder is not None
    options: dict[str, Any] = {"name": name, "lifetime": "detached", "max_restarts": -1, "max_concurrency": 8}
    # Ray starts a keeper again with these arguments. An older folder of this run is another one's.
    place = str(Path(tempfile.gettempdir()) / f"gymnast-kept-{name}-{secrets.token_hex(4)}")
    try:
        keeper: Any = ray.remote(num_cpus=0, resources=HEAD)(Keeper).options(**options)
        return keeper.remote(job, changes(job.folder, {}), place, versions_to_share())
    except ValueError:  # Ray's word for a name that is taken
        raise UserError(f"{name} is being trained on this cluster already; stop it first.") from None


class Echo:
    """An actor that costs nothing but its calls."""

    def size(self, data: bytes) -> int:
        return len(data)


def call_seconds(size: int, head: Head, calls: int = 20, windows: int = 10) -> float:
    """What one call of an actor with so many bytes takes, until its answer is here: the mean of the best window."""
    actor: Any = ray.remote(num_cpus=0)(Echo).remote()
    data, found = bytes(size), []
    head.answer(actor.size.remote(data))
    for _ in range(windows):
        before = time.perf_counter()
        for _ in range(calls):
            ray.get(actor.size.remote(data))
        found.append((time.perf_counter() - before) / calls)
    ray.kill(actor)
    return min(found)
