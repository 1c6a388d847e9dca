"""A cluster that cannot be connected to: the reason, in seconds. The heads here answer in Ray's own protocol."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gymnast.core import ray_cluster
from gymnast.core.errors import Lost, UserError
from gymnast.core.ray_cluster import LOOPBACK, SETTINGS, connect
from tests.cluster.conftest import CLUSTER
from tests.processes import running

pytest.importorskip("ray")
ROOT = Path(__file__).parents[2]


@contextmanager
def head(answer: Any) -> Iterator[str]:
    """What asks it for its nodes gets this `answer`, which may also end the call. None: it knows no such question."""
    import grpc
    from ray.core.generated import gcs_service_pb2_grpc

    class Nodes(gcs_service_pb2_grpc.NodeInfoGcsServiceServicer):  # type: ignore[misc]
        def GetAllNodeInfo(self, request: Any, context: Any) -> Any:
            return answer(context)

    server = grpc.server(ThreadPoolExecutor(1))
    if answer is not None:
        gcs_service_pb2_grpc.add_NodeInfoGcsServiceServicer_to_server(Nodes(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


@contextmanager
def silence() -> Iterator[str]:
    """It greets as gRPC does, and never says anything else."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = []

        def greet() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return
                connections[-1].sendall(SETTINGS)

        Thread(target=greet, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            connection.close()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(ray_cluster, "ASK_SECONDS", 0.2)
    for name in LOOPBACK:
        monkeypatch.setenv(name, "0")
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)


def test_a_head_that_is_silent_is_not_called_a_wrong_token() -> None:
    with silence() as address, pytest.raises(Lost) as lost:
        connect(address, "--on")
    assert str(lost.value) == f"--on {address}: something listens there, and does not answer within 1 s."
    assert not lost.value.gone


def test_a_head_without_a_node_on_this_machine() -> None:
    from ray.core.generated import gcs_service_pb2

    with head(lambda context: gcs_service_pb2.GetAllNodeInfoReply()) as address, pytest.raises(UserError) as error:
        connect(address, "--on")
    expected = f"--on {address}: the head answers, but no node of that cluster runs on this machine"
    assert str(error.value).startswith(expected)
    assert f"ray start --address={address}" in str(error.value)


def test_only_a_refused_token_is_called_so() -> None:
    import grpc

    def refuse(code: Any) -> Any:
        return lambda context: context.abort(code, "because")

    with head(refuse(grpc.StatusCode.UNAUTHENTICATED)) as address, pytest.raises(UserError, match="wrong token"):
        connect(address, "--on")
    with head(refuse(grpc.StatusCode.INTERNAL)) as address, pytest.raises(Lost) as lost:
        connect(address, "--on")
    assert str(lost.value) == f"--on {address}: the cluster does not answer (internal: because)."
    with head(None) as address, pytest.raises(UserError, match=r"no head of a Ray cluster\. .* ray://HOST:PORT"):
        connect(address, "--on")


@pytest.mark.timeout(600)
def test_a_cluster_of_one_machine_is_found_without_its_variable() -> None:
    """Ray takes 127.0.0.1 for this machine's other address where the variable is not set, and nobody listens there."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    other = {name: value for name, value in os.environ.items() if name not in LOOPBACK}
    with running([sys.executable, "-c", CLUSTER], env=other | LOOPBACK, **pipes) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdin is not None
        address = cluster.stdout.readline().strip()
        command = [sys.executable, "-m", "gymnast", "ray", "status", address]
        found = subprocess.run(command, env=other, cwd=ROOT, capture_output=True, text=True, check=False)
        cluster.stdin.close()
        cluster.wait(60)
    assert found.returncode == 0, found.stderr
    assert "1 of 1 cores are free" in found.stdout


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own
def test_ray_knows_every_option_that_ray_up_prints() -> None:
    from ray.scripts.scripts import start

    from gymnast.verbs.remote.cluster import how_to

    lines = [command for commands in how_to(6379).data.values() for command, _ in commands]
    printed = {
        option for line in lines if line.startswith(("ray start", "--")) for option in re.findall(r"--[\w-]+", line)
    }
    assert {"--head", "--address", "--num-gpus", "--temp-dir", "--object-store-memory"} <= printed
    assert printed <= {option for parameter in start.params for option in parameter.opts}
