"""Runs jobs on a Ray cluster: one that exists, or one on this machine that ends with this process."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError, package_problem

if TYPE_CHECKING:
    from gymnast.jobs.mirror import Change, Known
    from gymnast.jobs.worker import Event, Job

CONNECT_SECONDS = 10.0
PATIENCE = {  # how often and how long Ray tries
    "RAY_NUM_REDIS_GET_RETRIES": "5",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "5",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "5",
}
TOKEN = (
    "the cluster refuses this connection, as with a wrong token. Of a cluster with tokens, set RAY_AUTH_MODE=token and "
    "RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH)."
)
NAMESPACE = "gymnast"
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
        if problem := package_problem("ray", "ray"):
            raise UserError(f"--on ray: {problem}")
        address = address or os.environ.get("RAY_ADDRESS") or None
        connect(address)
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


def connect(address: str | None) -> None:
    """To a cluster, within seconds. An embedded one has no dashboard and listens on this machine only."""
    for name, value in PATIENCE.items() if address else ():  # read when Ray is imported
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": NAMESPACE}
    if address is None:
        try:
            ray.init(address="local", include_dashboard=False, **quiet)
        except Exception as error:  # Ray raises just that where it cannot start
            raise UserError(f"--on ray: Ray cannot start on this machine: {error}") from None
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(f"--on {address}: no Ray cluster answers there ({error}).") from None
    try:
        with _silence():
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        refused = isinstance(error, ConnectionError | ray.exceptions.AuthenticationError)
        raise UserError(f"--on {address}: {TOKEN if refused else str(error).strip().splitlines()[0]}") from None


@contextmanager
def _silence() -> Iterator[None]:
    """What Ray's C++ part says on standard error about each attempt: the error that follows says it once."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
