"""The way to a Ray cluster: one that exists, or one on this machine that ends with this process."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gymnast.core.errors import UserError, package_problem

NAMESPACE = "gymnast"
CONNECT_SECONDS = 10.0
PATIENCE = {  # how often and how long Ray tries
    "RAY_NUM_REDIS_GET_RETRIES": "5",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "5",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "5",
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray's way to say that no other machine can join
TOKEN = (
    "the cluster refuses this connection, as with a wrong token. Of a cluster with tokens, set RAY_AUTH_MODE=token and "
    "RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH)."
)


def connect(address: str | None, asked_by: str) -> Any:
    """The package, connected within seconds. `address` None: a cluster of its own, without a dashboard, that listens on
    this machine only. `asked_by`: the option or setting that an error names."""
    asked = f"{asked_by}{' ' if asked_by.startswith('-') else '='}{address or 'ray'}"
    if problem := package_problem("ray", "ray"):
        raise UserError(f"{asked}: {problem}")
    for name, value in (PATIENCE if address else LOOPBACK).items():  # read when Ray is imported
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return ray
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": NAMESPACE}
    if address is None:
        try:
            ray.init(address="local", include_dashboard=False, **quiet)
        except Exception as error:  # Ray raises just that where it cannot start
            raise UserError(f"{asked}: Ray cannot start on this machine: {error}") from None
        return ray
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(f"{asked}: no Ray cluster answers there ({error}).") from None
    try:
        with _silence():
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        refused = isinstance(error, ConnectionError | ray.exceptions.AuthenticationError)
        raise UserError(f"{asked}: {TOKEN if refused else str(error).strip().splitlines()[0]}") from None
    return ray


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
