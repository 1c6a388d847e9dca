"""Runs jobs on a Ray cluster: one that exists, or one on this machine that ends with this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError
from gymnast.core.ray_cluster import NAMESPACE, connect

if TYPE_CHECKING:
    from gymnast.jobs.mirror import Change, Known
    from gymnast.jobs.worker import Event, Job

EMBEDDED = "ray"


class RayRun:
    """One job on the cluster, which ends with this process."""

    def __init__(self, job: Job) -> None:
        from gymnast.jobs.launchers.ray_actors import Control

        self._job, self._control = job, Control()

    def __iter__(self) -> Iterator[Event]:
        from gymnast.jobs.launchers.ray_actors import on_nodes

        return on_nodes(self._job, self._control)

    def close(self) -> None:
        self._control.closed.set()


class RayKept:
    """A detached job, by its keeper on the head node."""

    def __init__(self, keeper: Any) -> None:
        self._keeper = keeper

    def news(self, known: Known, heard: int) -> tuple[list[Event], list[Change]]:
        return _answer(self._keeper.news.remote(known, heard))

    def stop(self) -> None:
        _answer(self._keeper.stop.remote())

    def forget(self) -> None:
        import ray

        _answer(self._keeper.forget.remote())
        ray.kill(self._keeper)


def _answer(call: Any) -> Any:
    import ray

    try:
        return ray.get(call)
    except ray.exceptions.RayError as error:
        raise UserError(f"the cluster does not answer any more: {type(error).__name__}") from error


class RayLauncher:
    """A cluster by its address; None: the one that RAY_ADDRESS names, else one on this machine."""

    def __init__(self, address: str | None = None) -> None:
        address = address or os.environ.get("RAY_ADDRESS") or None
        connect(address, "--on")
        self.address = address or EMBEDDED

    def run(self, job: Job) -> RayRun:
        return RayRun(job)

    def room(self, cores: int) -> int:
        return max(1, sum(int(node.get("CPU", 0)) // cores for node in self._nodes()))

    @property
    def most_cores(self) -> int:
        return max(int(node.get("CPU", 0)) for node in self._nodes())

    def submit(self, name: str, job: Job) -> RayKept:
        from gymnast.jobs.launchers.ray_actors import keep

        return RayKept(keep(name, job))

    def find(self, name: str) -> RayKept | None:
        import ray

        try:
            return RayKept(ray.get_actor(name, NAMESPACE))
        except ValueError:
            return None

    def call_seconds(self, size: int) -> float:
        """What a call with so many bytes costs."""
        from gymnast.jobs.launchers.ray_actors import call_seconds

        return call_seconds(size)

    @staticmethod
    def _nodes() -> list[dict[str, float]]:
        import ray

        return [node["Resources"] for node in ray.nodes() if node["Alive"]]
