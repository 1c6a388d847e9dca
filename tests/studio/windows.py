"""A real server on a real port, and windows that talk to it as a page does."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from websockets.sync.client import ClientConnection, connect

from gymnast.studio import session
from gymnast.studio.session import Sessions
from gymnast.studio.socket import Hub

LIMIT = 200.0  # seconds for anything a test waits for
HEADER = struct.Struct(">4sBBHIIIIHHHH")
NAMES = ("magic", "kind", "codec", "flags", "session", "episode", "t", "seq", "width", "height", "index", "layer")


class Served:
    """A hub with sessions behind uvicorn, in a thread of its own."""

    def __init__(self, runs_dir: Path) -> None:
        self.hub = Hub()
        self.sessions: Sessions
        self.runs_dir = runs_dir
        app = Starlette(routes=[WebSocketRoute("/ws", self.hub.serve)])
        self.server = uvicorn.Server(
            uvicorn.Config(
                app,
                host="127.0.0.1",
                port=0,
                log_level="warning",
                ws="websockets-sansio",  # as in serve.py
                ws_per_message_deflate=False,
                ws_ping_interval=None,  # a window that does not read is not disconnected for a missing pong
            )
        )
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self.sessions = session.attach(self.hub, self.runs_dir)
        await self.server.serve()
        await self.sessions.close()
        await asyncio.sleep(0.2)

    def start(self) -> None:
        self._thread.start()
        until(lambda: self.server.started, "a server")

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(LIMIT)

    @property
    def port(self) -> int:
        return int(self.server.servers[0].sockets[0].getsockname()[1])

    @contextmanager
    def window(self, **options: Any) -> Iterator[Window]:
        with connect(f"ws://127.0.0.1:{self.port}/ws", max_size=None, **options) as connection:
            yield Window(connection)

    @contextmanager
    def sleeper(self) -> Iterator[Window]:
        """A window that does not read: the buffers between the two are small, and soon full."""
        with socket.socket() as narrow:
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            narrow.connect(("127.0.0.1", self.port))
            with self.window(sock=narrow, max_queue=1) as window:
                yield window


class Window:
    """Keeps everything that arrives, in order."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.messages: list[dict[str, Any]] = []
        self.pictures: list[tuple[dict[str, int], bytes]] = []
        self._count = 0
        self.welcome = self.until(lambda message: message.get("type") == "welcome")

    @property
    def id(self) -> str:
        return str(self.welcome["client"])

    def read(self, seconds: float = LIMIT) -> dict[str, Any] | None:
        """The next message; None: it was a picture."""
        got = self.connection.recv(seconds)
        if isinstance(got, bytes):
            self.pictures.append((dict(zip(NAMES, HEADER.unpack(got[:32]), strict=True)), got[32:]))
            return None
        message: dict[str, Any] = json.loads(got)
        self.messages.append(message)
        return message

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            message = self.read()
            if message is not None and condition(message):
                return message
        raise AssertionError("it never came")

    def pushed(self, kind: str) -> dict[str, Any]:
        """The first message of a kind, which may have arrived already."""
        there = next((message for message in self.messages if message.get("type") == kind), None)
        return there or self.until(lambda message: message.get("type") == kind)

    def send(self, do: str, **fields: Any) -> int:
        self._count += 1
        self.connection.send(json.dumps({"id": self._count, "do": do, **fields}))
        return self._count

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        number = self.send(do, **fields)
        return self.until(lambda message: message.get("re") == number)

    def steps(self, session: int | None = None) -> list[dict[str, Any]]:
        return [one for one in self.messages if one.get("type") == "step" and session in (None, one["session"])]


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.02)
