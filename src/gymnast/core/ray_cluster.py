"""The way to a Ray cluster: one that exists, or one on this machine that ends with this process."""

from __future__ import annotations

import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from gymnast.core.errors import Lost, UserError, package_problem

NAMESPACE = "gymnast"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 15.0  # until a head that listens must have answered, and a node of it must run here
PATIENCE = {  # how often and how long Ray tries
    "RAY_NUM_REDIS_GET_RETRIES": "5",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "5",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "5",
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray's way to say that no other machine can join
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # what both sides of gRPC say first: an HTTP/2 frame, type 4, empty here
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
LOST_SECONDS = 10.0  # without an answer of the head. After 60 Ray ends this process without a word
ASK_SECONDS = 2.0  # of waiting for an answer, between two questions whether the head is there
TOKEN = (
    "the cluster refuses this connection, as with a wrong token. Of a cluster with tokens, set RAY_AUTH_MODE=token and "
    "RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH)."
)
NO_NODE = (
    "the head answers, but no node of that cluster runs on this machine, and Ray connects through one. Start it here "
    "(ray start --address={address}), or connect from outside with --on ray://HOST:10001."
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
    # Of a node that dies Ray prints the last lines of its log, whatever log_to_driver is. Its debugger sets this too
    ray._private.worker._worker_logs_enabled = False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": NAMESPACE}
    if address is None:
        try:
            with _silence(), _stopped_by_sigterm():
                ray.init(address="local", include_dashboard=False, **quiet)
        except Exception as error:  # Ray raises just that where it cannot start
            raise UserError(f"{asked}: Ray cannot start on this machine: {_first_line(error)}") from None
        return ray
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        _greet(host, int(port))
    except (OSError, ValueError) as error:
        raise Lost(f"{asked}: no Ray cluster answers there ({error}).", _is_gone(error)) from None
    try:
        with _silence(), _stopped_by_sigterm():
            if not address.startswith("ray://"):
                _ask_head(host, int(port), asked)
            ray.init(address=address, **quiet)
    except ray.exceptions.AuthenticationError:
        raise UserError(f"{asked}: {TOKEN}") from None
    except ConnectionError as error:
        raise Lost(f"{asked}: the cluster does not answer: {_one_line(error)}") from None
    except (RuntimeError, ray.exceptions.RayError) as error:
        raise UserError(f"{asked}: {_one_line(error)}") from None
    return ray


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C, unless somebody else has said what it does. With the handlers that Ray installs when it connects it
    prints lines of C++ and ends the process at once."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler if before is signal.SIG_DFL else before)


def _greet(host: str, port: int) -> None:
    """OSError where nobody listens, or somebody who is not Ray: Ray itself would wait for minutes."""
    with socket.create_connection((host, port), CONNECT_SECONDS) as way, way.makefile("rb") as answers:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        way.sendall(GREETING)
        if answers.read(len(SETTINGS))[3:4] != SETTINGS[3:4]:
            raise OSError("what listens there is not Ray")


def _ask_head(host: str, port: int, asked: str) -> None:
    """UserError with the reason where Ray cannot connect: it would retry for minutes and then not say it."""
    import grpc
    from ray._private import grpc_utils, ray_constants, services
    from ray.core.generated import gcs_pb2, gcs_service_pb2, gcs_service_pb2_grpc

    # Ray takes this machine's own address for a loopback one. A cluster that no other machine can join is not there
    if services.resolve_ip_for_localhost(host) != host and not _is_open(services.get_node_ip_address(), port):
        os.environ |= LOOPBACK  # for the processes that this one starts
        ray_constants.ENABLE_RAY_CLUSTER = False
    deadline = monotonic() + ANSWER_SECONDS
    nodes_pb2: Any = gcs_pb2  # protobuf makes its classes when it is imported: mypy sees none
    asks: Any = gcs_service_pb2
    with grpc_utils.init_grpc_channel(f"{host}:{port}") as channel:
        head = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        while True:
            try:
                answer = head.GetAllNodeInfo(
                    asks.GetAllNodeInfoRequest(), timeout=max(ASK_SECONDS, deadline - monotonic())
                )
            except grpc.RpcError as error:
                raise _no_answer(error, asked) from None
            nodes = [node for node in answer.node_info_list if node.state == nodes_pb2.GcsNodeInfo.ALIVE]
            if {node.node_id.hex() for node in nodes} & services.find_node_ids():
                return
            if monotonic() > deadline:
                raise UserError(f"{asked}: {NO_NODE.format(address=f'{host}:{port}')}")
            sleep(ASK_SECONDS / 4)


def _no_answer(error: Any, asked: str) -> UserError:
    """A gRPC error of a head in words."""
    import grpc

    code = error.code()
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return UserError(f"{asked}: {TOKEN}")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return UserError(
            f"{asked}: what listens there is no head of a Ray cluster. Ray's client port is ray://HOST:PORT."
        )
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Lost(f"{asked}: something listens there, and does not answer within {ANSWER_SECONDS:g} s.")
    return Lost(f"{asked}: the cluster does not answer ({code.name.lower()}: {error.details()}).")


def _is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ASK_SECONDS).close()
    except OSError:
        return False
    return True


def _one_line(error: Exception) -> str:
    """All that it says: the reason may stand in any line of it."""
    return " ".join(str(error).split()) or type(error).__name__


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def last_line(error: Exception) -> str:
    """Of an error in another process: before it there is a traceback."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


def _is_gone(error: Exception) -> bool:
    """Its machine answers that nobody listens there. Otherwise the network may be what is broken."""
    return isinstance(error, ConnectionRefusedError)


class Head:
    """The head of the cluster that this process is connected to. Ray itself waits for one that is gone, and then ends
    the process: nothing is asked of it before this has seen that it listens."""

    def __init__(self, address: str | None) -> None:
        import ray

        self.name = "on this machine" if address is None else f"at {address}"
        found = ray.get_runtime_context().gcs_address if address is None else address.removeprefix("ray://")
        host, _, port = found.rpartition(":")
        self._place = host, int(port)
        self._silent_since: float | None = None
        self._empty_since: float | None = None

    def listens(self) -> bool:
        """Lost if it has not done so for a while."""
        try:
            socket.create_connection(self._place, ASK_SECONDS).close()
        except OSError as error:
            self._silent_since = self._silent_since or monotonic()
            if monotonic() - self._silent_since > LOST_SECONDS:
                why = f"its head does not answer any more ({error.strerror or error})"
                raise self._lost(why, _is_gone(error)) from None
            return False
        self._silent_since = None
        return True

    def wait(self) -> None:
        """Until it listens."""
        while not self.listens():
            sleep(ASK_SECONDS / 4)

    def has_nodes(self) -> bool:
        """Lost if there has been no node for a while."""
        import ray

        self.wait()
        if any(node["Alive"] for node in ray.nodes()):
            self._empty_since = None
            return True
        self._empty_since = self._empty_since or monotonic()
        if monotonic() - self._empty_since > LOST_SECONDS:
            raise self._lost("all of its nodes are gone", gone=True)
        return False

    def answer(self, call: Any) -> Any:
        """What a call of an actor returns. RayActorError: its node or its process died; Lost: there is no cluster."""
        import ray

        self.listens()  # an actor may go on answering for a while after its cluster has died
        while not self.has_answer(call, ASK_SECONDS):
            self.has_nodes()
        with self.or_lost():
            return ray.get(call)

    def has_answer(self, call: Any, seconds: float) -> bool:
        """Waits that long for it."""
        import ray

        with self.or_lost():
            return bool(ray.wait([call], timeout=seconds)[0])

    @contextmanager
    def or_lost(self) -> Iterator[None]:
        """Whatever Ray or, with ray://, its connection raises where there is no cluster any more."""
        import ray
        from grpc import RpcError

        errors = ray.exceptions
        try:
            yield
        except (errors.RayActorError, errors.RayTaskError):
            raise
        except (errors.ObjectLostError, errors.NodeDiedError) as error:  # large answers stay on their node
            raise errors.RayActorError(error_msg=_first_line(error)) from None
        except (errors.RayError, ConnectionError, RpcError) as error:
            details = getattr(error, "details", None)  # of gRPC: its text has five lines
            said = str(details()) if callable(details) else _first_line(error)
            raise self._lost(f"{type(error).__name__.lstrip('_')}: {said}", gone=self._refuses()) from None

    def _refuses(self) -> bool:
        try:
            socket.create_connection(self._place, ASK_SECONDS).close()
        except OSError as error:
            return _is_gone(error)
        return False

    def _lost(self, why: str, gone: bool) -> Lost:
        return Lost(f"the Ray cluster {self.name} is lost: {why}", gone)


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
