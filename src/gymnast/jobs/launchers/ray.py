"""Runs jobs on a Ray cluster: one that exists, or one that Ray starts in this process.

An actor on some node reserves the job's cores and starts the same worker process there as on this machine. Its answers
and the files of its folder come back with every call. If the node dies, another actor starts the job again, with the
files as they came last.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

from gymnast.core.errors import UserError, package_problem
from gymnast.jobs.mirror import Change, Known, apply, changes
from gymnast.jobs.worker import Event, Job, Worker, WorkerLost

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 0.5  # how long a node waits for news before it answers with none
MOST_NODES_LOST = 100  # by one job


class NodeWorker:
    """An actor: the worker process of a job on one node, and its folder there."""

    def __init__(self, job: Job, files: list[Change]) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="gymnast-")
        self._folder = Path(self._scratch.name)
        apply(self._folder, files, {})
        folder = None if job.folder is None else self._folder / job.folder.name
        self._worker = Worker(replace(job, folder=folder), threads=job.cores)

    def node(self) -> str:
        return f"{socket.gethostname()}:{os.getppid()}"

    def news(self, known: Known) -> tuple[list[Event], list[Change]]:
        """Its answers since the last call, and what has changed in its folder. The last answer comes alone with the
        last files."""
        events: list[Event] = []
        try:
            event = self._worker.hear(ANSWER_SECONDS)
            while event is not None:
                events.append(event)
                event = None if event.kind == "result" else self._worker.hear(0.0)
        except WorkerLost as lost:
            events.append(Event("error", {"why": str(lost)}))
        return events, changes(self._folder, known)


class RayRun:
    """One job on the cluster."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._closed = Flag()

    def __iter__(self) -> Iterator[Event]:
        import ray

        lost = 0
        while not self._closed.is_set():
            actor: Any = ray.remote(num_cpus=self._job.cores)(NodeWorker).remote(self._job, [])
            try:
                yield from self._follow(actor)
                return
            except ray.exceptions.RayActorError as error:
                lost += 1
                if lost > MOST_NODES_LOST:
                    yield Event("error", {"why": f"{lost} nodes died under it: {error}"})
                    return
            finally:
                ray.kill(actor)
        yield Event("error", {"why": "it was stopped"})

    def _follow(self, actor: Any) -> Iterator[Event]:
        import ray

        known: Known = {}
        while not self._closed.is_set():
            call = actor.news.remote(known)
            while not ray.wait([call], timeout=ANSWER_SECONDS)[0]:
                if self._closed.is_set():
                    break
            else:
                events, _ = ray.get(call)
                yield from events
                if events and events[-1].kind in ("result", "error"):
                    return
        yield Event("error", {"why": "it was stopped"})

    def close(self) -> None:
        self._closed.set()


class RayLauncher:
    """A cluster by its address; None: the one that RAY_ADDRESS names, else one in this process."""

    def __init__(self, address: str | None = None) -> None:
        if problem := package_problem("ray", "ray"):
            raise UserError(problem)
        connect(address or os.environ.get("RAY_ADDRESS"))

    def run(self, job: Job) -> RayRun:
        return RayRun(job)

    def room(self, cores: int) -> int:
        import ray

        return max(1, int(ray.cluster_resources().get("CPU", 1)) // cores)


def connect(address: str | None) -> None:
    """To a cluster, within seconds. The embedded one has no dashboard and no pages for others."""
    import ray

    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "gymnast"}
    if address is None:
        ray.init(address="local", include_dashboard=False, **quiet)
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(f"--on {address}: no Ray cluster answers there ({error}).") from None
    ray.init(address=address, **quiet)
