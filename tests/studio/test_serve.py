"""How Studio starts and ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from gymnast.runs.references import Run
from gymnast.studio import serve as serve_module
from gymnast.studio.app import make_app
from gymnast.studio.guard import HEADERS
from gymnast.studio.library import sweep_of
from tests.processes import is_alive, running, wait_for
from tests.runs.report_runs import Gallery
from tests.studio.conftest import ROOT, TOKEN, Studio, studio_of
from tests.warm import warm

ENDLESS = {"train.total_timesteps": 10**9, "stop.on_solved": False, "env.n_envs": 4, "eval.every": 0, "log.every": 256}


@pytest.mark.parametrize("kind", ["default", "shallow", "link"])
def test_a_run_is_shown_wherever_its_folder_is(gallery: Gallery, tmp_path: Path, kind: str) -> None:
    """`runs` of the folder it is started in, an absolute path as short as a container's /runs, a symbolic link."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        folder = Path(short) if kind == "shallow" else tmp_path / "runs"
        real = tmp_path / "elsewhere" if kind == "link" else folder
        run = Run(shutil.copytree(gallery.tuned[0].path, real / gallery.tuned[0].id))
        if kind == "link":
            folder.symlink_to(real)
        with studio_of(Path("runs") if kind == "default" else folder, cwd=tmp_path) as studio:
            assert [row["id"] for row in studio.get("/runs")["runs"]] == [run.id]
            for ref in (run.id, "@last"):
                assert (studio.get(f"/run/{ref}")["id"], studio.get(f"/run/{ref}")["sweep"]) == (run.id, None)
            for part in ("metrics", "next", "diagnostics", "file/config.yaml"):
                assert studio.api.get(f"/api/run/{run.id}/{part}").status_code == 200, part


def test_a_sweeps_run_is_known_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = tmp_path / "sweeps" / "lr" / "runs" / "3"
    cell.mkdir(parents=True)
    assert sweep_of(cell / "k7f3q") == "lr"
    monkeypatch.chdir(cell)
    assert sweep_of(Path("k7f3q")) == "lr"
    for path in ("/", "/k7f3q", "/runs/k7f3q", "/sweeps/lr/k7f3q", "/sweeps/lr/runs/k7f3q"):
        assert sweep_of(Path(path)) is None, path


def test_a_defect_is_one_line_of_json(tmp_path: Path) -> None:
    """The page shows the line; the terminal has the traceback."""

    def broken(request: Request) -> None:
        raise IndexError("3")

    app = make_app(tmp_path, TOKEN, "127.0.0.1", 8000)
    app.router.routes.insert(0, Route("/api/run/k7f3q", broken))
    page = TestClient(app, "http://127.0.0.1:8000", raise_server_exceptions=False)
    answer = page.get("/api/run/k7f3q", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 500
    assert answer.json() == {"error": "an error in Studio, see the terminal: IndexError at /api/run/k7f3q"}
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]


def refused(*options: str) -> str:
    done = warm.run(options)
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_a_page_open(tmp_path: Path, number: signal.Signals) -> None:
    """SIGHUP is what a closed terminal sends."""
    with studio_of(tmp_path / "runs") as studio, studio.window() as window:
        window.ask("watch_runs")
        studio.process.send_signal(number)
        assert studio.process.wait(timeout=60) == 0


def test_a_started_run_outlives_studio_and_can_be_stopped(tmp_path: Path) -> None:
    with studio_of(tmp_path / "runs") as studio:
        run = Run(
            tmp_path / "runs" / studio.post("/start", env="CartPole-v1", set=ENDLESS, seed=3, tags=["long"])["id"]
        )
        info = run.read()
        assert (info.seed, info.tags, info.env) == (3, ["long"], "CartPole-v1")
        assert os.getpgid(info.pid) != os.getpgid(studio.process.pid)  # Ctrl-C in Studio's terminal is not for it
        studio.process.send_signal(signal.SIGINT)
        assert studio.process.wait(timeout=60) == 0
    assert is_alive(info.pid)
    wait_for(lambda: run.metrics_path.exists() and run.metrics_path.stat().st_size, "row of metrics")
    with studio_of(tmp_path / "runs") as studio:
        assert studio.get(f"/run/{run.id}")["status"] == "running"
        refusal = studio.api.post(f"/api/run/{run.id}/delete")
        assert refusal.status_code == 400
        assert "still being trained" in refusal.json()["error"]
        studio.post(f"/run/{run.id}/stop")
        wait_for(lambda: studio.get(f"/run/{run.id}")["status"] == "interrupted", "end of the run")
        assert not any(path.name.startswith(".output") for path in (tmp_path / "runs").iterdir())
        again = studio.api.post(f"/api/run/{run.id}/stop")
        assert again.status_code == 400
        assert "not being trained" in again.json()["error"]
        assert studio.post(f"/run/{run.id}/resume") == {"id": run.id}
        assert run.read().status == "running"
        studio.post(f"/run/{run.id}/stop")
        wait_for(lambda: not run.live(), "end of the resumed run")
        studio.post(f"/run/{run.id}/delete")
        assert not run.path.exists()


def test_a_check_under_way_ends_with_studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And there is one at a time."""
    monkeypatch.setenv("STUDIO_TEST_FOLDER", str(tmp_path))
    body = {"env": "tests.studio.envs:studio/Endless-v0"}
    with studio_of(tmp_path / "runs") as studio:
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                studio.api.post("/api/check", json=body, timeout=3)
        wait_for(lambda: list(tmp_path.glob("[0-9]*")), "process that makes the env")
        (pid,) = (int(path.name) for path in tmp_path.glob("[0-9]*"))
        assert is_alive(pid)
        studio.process.send_signal(signal.SIGTERM)
        assert studio.process.wait(timeout=60) == 0
    wait_for(lambda: not is_alive(pid), "end of the check")


def test_other_machines_need_a_secret() -> None:
    said = refused("studio", "--host", "0.0.0.0", "--no-browser")
    assert "--token" in said
    assert "--token" in refused("studio", "--host", "0.0.0.0", "--no-browser", "--token", "short")
    assert "--token" in refused("studio", "--no-browser", "--token", "with spaces and ;")


def test_the_secret_may_be_in_the_environment(tmp_path: Path) -> None:
    """The command line of a process is everybody's to read."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "GYMNAST_STUDIO_TOKEN": TOKEN}
    command = [sys.executable, "-m", "gymnast", "studio", "--no-browser", "--runs-dir", str(tmp_path / "runs")]
    with running(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert f"token={TOKEN}" in process.stdout.readline()


def test_what_a_client_does_wrong_prints_nothing(tmp_path: Path) -> None:
    with open(tmp_path / "errors", "w+b") as errors, studio_of(tmp_path / "runs", stderr=errors) as studio:
        for message, is_text, code in ((b"\0\1", False, 1003), (b"\xff\xfe", True, 1007)):  # binary, no UTF-8
            with studio.window() as window:
                window.socket.send(message, text=is_text)
                with pytest.raises(ConnectionClosed) as closed:
                    window.socket.recv(timeout=60)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == code
        head = f"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        with socket.create_connection(("127.0.0.1", studio.port)) as connection:
            connection.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())  # a body that stops
            wait_for(lambda: studio.get("/hello"), "answer")
        assert studio.get("/hello")
        studio.process.send_signal(signal.SIGINT)
        assert studio.process.wait(timeout=60) == 0
        errors.seek(0)
        assert errors.read() == b""


def test_a_connection_that_asks_for_nothing_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others stay: a websocket, and one that has asked for something."""
    monkeypatch.setattr(serve_module, "HEADER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        app = make_app(tmp_path, TOKEN, "127.0.0.1", port)
        config = uvicorn.Config(app, http=serve_module.Connection, ws="websockets-sansio", log_level="error")
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            headers = {"Cookie": f"gymnast-{port}={TOKEN}"}
            address = f"ws://127.0.0.1:{port}/ws"
            with connect(address, origin=f"http://127.0.0.1:{port}", additional_headers=headers, proxy=None) as window:  # type: ignore[arg-type]
                window.recv(timeout=60)  # it is welcome
                for said in (b"", b"GET / HTTP/1.1\r\nHost: 127.0"):
                    with socket.create_connection(("127.0.0.1", port), timeout=60) as silent:
                        silent.sendall(said)
                        assert silent.recv(1) == b""  # closed
                window.send('{"id": 1, "do": "sessions"}')
                assert '"re": 1' in str(window.recv(timeout=60))
        finally:
            server.should_exit = True
            thread.join(60)


def test_a_port_in_use_is_one_line(studio: Studio) -> None:
    assert "already in use" in refused("studio", "--no-browser", "--port", str(studio.port))


def test_what_is_no_run_and_no_env_is_one_line(tmp_path: Path) -> None:
    folder = ("--runs-dir", str(tmp_path), "--no-browser")
    assert "no runs yet" in refused("studio", "nosuchrun", *folder)
    assert "CartPole-v1" in refused("play", "CartPolo-v1", *folder)
    assert "no runs yet" in refused("play", "@last", *folder)


def test_the_browser_is_opened_without_the_secret(tmp_path: Path) -> None:
    """Every user of a machine can read the command line of a browser."""
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "gymnast", "studio", "--token", TOKEN, "--runs-dir", str(tmp_path / "runs")]
    with running(command, cwd=ROOT, env={**os.environ, "BROWSER": str(browser)}, stdout=subprocess.DEVNULL):
        wait_for(lambda: opened.exists() and opened.stat().st_size, "browser")
        url = opened.read_text().strip()
        assert TOKEN not in url
        first = httpx.get(url, timeout=100)
        assert (first.status_code, first.headers["location"]) == (303, "/runs")
        assert TOKEN in first.headers["set-cookie"]
        assert httpx.get(url, timeout=100).status_code == 403  # it opens the page once


def test_no_torch_in_the_server() -> None:
    """It would take a second to start and hundreds of megabytes, for a list of runs."""
    code = "import sys, gymnast.studio.app; sys.exit('torch' in sys.modules or 'gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
