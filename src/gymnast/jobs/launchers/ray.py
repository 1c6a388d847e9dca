"""Runs jobs on a Ray cluster: one that exists, or one on this machine that ends with this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import Lost, UserError
from gymnast.core.machine import versions_to_share
from gymnast.core.ray_cluster import NAMESPACE, Head, connect, last_line
from gymnast.jobs.worker import Resources

if TYPE_CHECKING:
    from gymnast.jobs.mirror import Change, Known
    from gymnast.jobs.worker import Event, Job

EMBEDDED = "ray"


class RayRun:
    """One job on the cluster, which ends with this process."""

    def __init__(self, job: Job, head: Head) -> None:
        from gymnast.jobs.launchers.ray_actors import Control

        self._job, self._control, self._head = job, Control(), head

    def __iter__(self) -> Iterator[Event]:
        from gymnast.jobs.launchers.ray_actors import on_nodes

        return on_nodes(self._job, self._control, self._head, versions_to_share())

    def close(self) -> None:
        self._control.closed.set()


class RayKept:
    """A detached job, by its keeper on the head node."""

    def __init__(self, keeper: Any, head: Head) -> None:
        self._keeper, self._head = keeper, head

    def news(self, known: Known, heard: int) -> tuple[list[Event], list[Change]]:
        events, changed = self._answer(self._keeper.news, known, heard)
        return events, changed

    def stop(self) -> None:
        self._answer(self._keeper.stop)

    def forget(self) -> None:
        import ray

        self._answer(self._keeper.forget)
        ray.kill(self._keeper)

    def _answer(self, method: Any, *arguments: Any) -> Any:
        import ray

        try:
            with self._head.or_lost():
                return self._head.answer(method.remote(*arguments))
        except ray.exceptions.RayActorError as error:
            self._head.wait()  # where the head is there, Ray starts the keeper again
            raise Lost(f"the keeper of this run does not answer: {type(error).__name__}") from None
        except ray.exceptions.RayTaskError as error:
            raise UserError(f"the keeper of this run failed: {last_line(error)}") from None


class RayLauncher:
    """A cluster by its address; None: the one that RAY_ADDRESS names, else one on this machine."""

    def __init__(self, address: str | None = None) -> None:
        address = address or os.environ.get("RAY_ADDRESS") or None
        connect(address, "--on")
        self.address = address or EMBEDDED
        self._head = Head(address)

    def run(self, job: Job) -> RayRun:
        self._require(job)
        return RayRun(job, self._head)

    def room(self, cores: int) -> int:
        return max(1, sum(int(node.get("CPU", 0)) // cores for node in self._nodes()))

    @property
    def most_cores(self) -> int:
        return max(int(node.get("CPU", 0)) for node in self._nodes())

    def submit(self, name: str, job: Job) -> RayKept:
        from gymnast.jobs.launchers.ray_actors import keep

        self._require(job)
        return RayKept(keep(name, job), self._head)

    def find(self, name: str) -> RayKept | None:
        import ray

        try:
            return RayKept(ray.get_actor(name, NAMESPACE), self._head)
        except ValueError:
            return None

    def call_seconds(self, size: int) -> float:
        """What a call with so many bytes costs."""
        from gymnast.jobs.launchers.ray_actors import call_seconds

        return call_seconds(size, self._head)

    def leave(self) -> None:
        """A cluster of its own ends with that."""
        import ray

        ray.shutdown()

    def _require(self, job: Job) -> None:
        """UserError where no node could ever run it: Ray would wait for one without a word."""
        import ray

        asked = job.resources
        need = {"CPU": job.cores, "GPU": asked.gpu, "memory": asked.memory}
        for node in ray.nodes():
            enough = all(node["Resources"].get(name, 0.0) >= amount for name, amount in need.items())
            if node["Alive"] and enough and asked.labels.items() <= node["Labels"].items():
                return
        what = ", ".join(filter(None, [f"{job.cores} cores" if job.cores > 1 else "1 core", str(asked)]))
        key = "train.resources" if asked != Resources() else f"train.threads={job.cores}"
        raise UserError(f"{key}: no node of the cluster {self._head.name} has {what}.")

    @staticmethod
    def _nodes() -> list[dict[str, float]]:
        import ray

        return [node["Resources"] for node in ray.nodes() if node["Alive"]]
