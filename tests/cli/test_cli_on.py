"""--on with a place that cannot be used: one line, nothing started, no folder."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.conftest import Command, assert_answered


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@pytest.mark.parametrize("where", ["rai", "ray://", "ray://host", "host:port", "host:0", "host:99999", ":6379", ""])
def test_an_unknown_place(where: str, call: Command, tmp_path: Path) -> None:
    for words in (["train", "CartPole-v1"], ["benchmark", "CartPole-v1", "--out", tmp_path / "out"]):
        answer = call(*words, "--on", where, "--runs-dir", tmp_path / "runs")
        assert_answered(answer, where, code=2)
        assert answer.err == f"gymnast: --on {where}: must be local, ray, ray://HOST:PORT, HOST:PORT or modal.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "CartPole-v1", "--detach"], "--detach: needs --on WHERE"),
        (
            ["train", "CartPole-v1", "--set", "train.layout=central", "--set", "train.central.where=rey"],
            "train.central.where = rey: must be local, ray, HOST:PORT or ray://HOST:PORT.",
        ),
        (["autotune", "CartPole-v1", "--budget", "100"], "--budget 100: less than one rollout of 2048 steps"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, call: Command, tmp_path: Path) -> None:
    answer = call(*words, "--runs-dir", tmp_path / "runs")
    assert_answered(answer, said, code=2)
    assert said in answer.err
    assert list(tmp_path.iterdir()) == []


def test_an_address_where_nobody_is(call: Command, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    where = f"127.0.0.1:{free_port()}"
    for words in (["train", "CartPole-v1", "--quiet"], ["benchmark", "CartPole-v1", "--out", tmp_path / "out"]):
        answer = call(*words, "--on", where, "--runs-dir", tmp_path / "runs")
        assert_answered(answer, where, code=2)
        assert f"--on {where}: no Ray cluster answers there" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_address_where_somebody_else_is(
    answer: bytes | None, call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that never answers, one that hangs up, a web server."""
    pytest.importorskip("ray")
    monkeypatch.setattr("gymnast.core.ray_cluster.CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        Thread(target=answer_once, args=(server, answer), daemon=True).start()
        said = call("sweep", "CartPole-v1", "--on", where, "--runs-dir", tmp_path / "runs")
    assert_answered(said, where, code=2)
    why = "timed out" if answer is None else "what listens there is not Ray"
    assert said.err == f"gymnast: --on {where}: no Ray cluster answers there ({why}).\n"
    assert list(tmp_path.iterdir()) == []


def answer_once(server: socket.socket, answer: bytes | None) -> None:
    caller, _ = server.accept()
    with caller:
        caller.recv(100)
        if answer is not None:
            caller.sendall(answer)
        else:
            caller.recv(100)  # until it has hung up


@pytest.mark.parametrize("package", ["ray", "modal"])
def test_a_package_that_is_not_installed(package: str, without: Callable[..., Command], tmp_path: Path) -> None:
    answer = without(package)("benchmark", "CartPole-v1", "--on", package, "--out", tmp_path / "out")
    assert_answered(answer, package, code=2)
    assert f'--on {package}: {package} is not installed. Run: pip install "gymnast-rl[{package}]"\n' in answer.err
    assert list(tmp_path.iterdir()) == []


def test_how_a_cluster_is_made(call: Command) -> None:
    said = call("ray", "up", "--port", "7000").out
    for line in ("ray start --head --port=7000 --dashboard-host=127.0.0.1", "ray start --address=HEAD:7000"):
        assert line in said
    assert "RAY_AUTH_MODE=token" in said


def test_a_status_without_a_cluster(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    answer = call("ray", "status")
    assert_answered(answer, "status", code=2)
    assert "name its HOST:PORT, or set RAY_ADDRESS" in answer.err
