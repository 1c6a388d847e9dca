"""Studio as a user starts it: another process, real runs, requests over a real connection."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.processes import running
from tests.runs.report_runs import Gallery

TOKEN = "a-secret-of-the-tests"
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Studio:
    """`api` has the token in its header, as a program has; `browser` has the cookie and the Origin of a page."""

    process: subprocess.Popen[str]
    runs_dir: Path
    port: int
    api: httpx.Client
    browser: httpx.Client

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def window(self) -> Iterator[Window]:
        headers = {"Cookie": f"gymnast-{self.port}={TOKEN}"}
        address = f"ws://127.0.0.1:{self.port}/ws"
        with connect(address, origin=self.origin, additional_headers=headers, proxy=None) as socket:  # type: ignore[arg-type]
            welcome = json.loads(socket.recv(timeout=60))
            yield Window(socket, welcome["client"], welcome["control"])

    def get(self, path: str, **params: Any) -> Any:
        answer = self.api.get(f"/api{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        answer = self.api.post(f"/api{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@dataclass
class Window:
    """A page's websocket."""

    socket: ClientConnection
    client: str
    control: bool
    last: int = 0

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """The answer; what is pushed meanwhile is dropped."""
        self.last += 1
        self.socket.send(json.dumps({"id": self.last, "do": do, **fields}))
        return self.next(lambda message: message.get("re") == self.last)

    def next(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if fits(message):
                assert isinstance(message, dict)
                return message

    def pushed(self, kind: str) -> dict[str, Any]:
        return self.next(lambda message: message.get("type") == kind)


@contextmanager
def studio_of(runs_dir: Path, *options: str, cwd: Path = ROOT, **more: Any) -> Iterator[Studio]:
    """A relative `runs_dir` is the default one, seen from `cwd`. `more`: how the process is started."""
    command = [sys.executable, "-m", "gymnast", "studio", "--no-browser", "--token", TOKEN]
    where = ["--runs-dir", str(runs_dir)] if runs_dir.is_absolute() else []
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    started = {"cwd": cwd, "env": environment, "stdout": subprocess.PIPE, "text": True, **more}
    with running([*command, *where, *options], **started) as process:
        assert process.stdout is not None
        url = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
        port = int(url.split(":")[2].split("/")[0])
        base = f"http://127.0.0.1:{port}"
        with (
            httpx.Client(base_url=base, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=100) as api,
            httpx.Client(base_url=base, cookies={f"gymnast-{port}": TOKEN}, headers={"Origin": base}) as browser,
        ):
            yield Studio(process, runs_dir, port, api, browser)


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """For looking at only: every test of a session shares it."""
    return Gallery(tmp_path_factory.mktemp("gallery") / "runs")


@pytest.fixture(scope="module")
def studio(gallery: Gallery) -> Iterator[Studio]:
    with studio_of(gallery.folder) as served:
        yield served


@pytest.fixture
def own_studio(gallery: Gallery, tmp_path: Path) -> Iterator[Studio]:
    """On a copy of the runs, which a test may change."""
    shutil.copytree(gallery.folder, tmp_path / "runs")
    with studio_of(tmp_path / "runs") as served:
        yield served
