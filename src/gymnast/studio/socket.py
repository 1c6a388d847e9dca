"""The websocket of a page: who is connected, who has control, and what is sent in which order.

Two classes of delivery. Messages are reliable: they arrive in order, none is lost, and a window that does not read them
for too long is disconnected. Frames are not: of each kind only the newest one waits. Neither ever waits for a window:
a browser that does not read cannot slow down a game or a training.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

from gymnast.core.errors import EnvFailure, UserError

MOST_WAITING = 32 << 20  # bytes of messages that a window may be behind with
TOO_SLOW = 1013  # websocket close code "try again later"
NO_TEXT = 1003  # "cannot accept this kind of data"
CLOSE_SECONDS = 1.0  # for a window to learn why it is disconnected
NO_CONTROL = "Another window has control. Take it first."


class Client:
    """A window. `push` and `push_frame` are called from the event loop and never wait."""

    def __init__(self, websocket: WebSocket) -> None:
        self.id = secrets.token_hex(6)
        self.behind = asyncio.Event()  # it did not read for too long
        self.sent_frames = self.dropped_frames = 0
        self._websocket = websocket
        self._messages: deque[str | bytes] = deque()
        self._frames: dict[Any, bytes] = {}
        self._size = 0
        self._wake = asyncio.Event()

    def push(self, message: dict[str, Any]) -> None:
        """Reliable and in order."""
        self._add(to_json(message))

    def push_bytes(self, data: bytes) -> None:
        """Reliable and in order with the messages."""
        self._add(data)

    def push_frame(self, key: Any, data: bytes) -> None:
        """The newest of its key wins; it is sent when no message waits."""
        self.dropped_frames += key in self._frames
        self._frames.pop(key, None)  # a new frame goes to the end: every key has its turn
        self._frames[key] = data
        self._wake.set()

    def _add(self, data: str | bytes) -> None:
        if self.behind.is_set():
            return
        self._messages.append(data)
        self._size += len(data)
        if self._size > MOST_WAITING:
            self.behind.set()
        self._wake.set()

    async def send(self) -> None:
        """Sends what waits until it is cancelled. It waits as long as the window does not read."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._messages:
                data = self._messages.popleft()
                self._size -= len(data)
                await self._send(data)
            if self._frames:
                key = next(iter(self._frames))
                await self._send(self._frames.pop(key))
                self.sent_frames += 1
                self._wake.set()

    async def _send(self, data: str | bytes) -> None:
        if isinstance(data, str):
            await self._websocket.send_text(data)
        else:
            await self._websocket.send_bytes(data)


Handler = Callable[[Client, dict[str, Any]], Awaitable[dict[str, Any]]]  # returns the answer without "re"


class _Command(NamedTuple):
    handler: Handler
    changes: bool


class Hub:
    """All windows of one Studio. One of them has control; the others may look."""

    def __init__(self) -> None:
        self.clients: dict[str, Client] = {}
        self.controller: str | None = None  # the id of the client that has control
        self._commands: dict[str, _Command] = {}
        self._on_leave: list[Callable[[Client], None]] = []
        self._on_control: list[Callable[[], None]] = []
        self.on("take_control", self._take_control)

    def on(self, do: str, handler: Handler, changes: bool = False) -> None:
        """What answers a command. `changes`: it is refused without control."""
        self._commands[do] = _Command(handler, changes)

    def on_leave(self, callback: Callable[[Client], None]) -> None:
        self._on_leave.append(callback)

    def on_control(self, callback: Callable[[], None]) -> None:
        """What is called when control goes from one window to another."""
        self._on_control.append(callback)

    def in_control(self, client_id: str | None) -> bool:
        return client_id is not None and client_id == self.controller

    async def serve(self, websocket: WebSocket) -> None:
        """One window, from its first message to its last."""
        await websocket.accept()
        client = Client(websocket)
        self.clients[client.id] = client
        if self.controller is None:
            self.controller = client.id
        client.push({"type": "welcome", "client": client.id, "control": self.in_control(client.id)})
        sender = asyncio.create_task(client.send())
        reader = asyncio.create_task(self._read(client, websocket))
        behind = asyncio.create_task(client.behind.wait())
        tasks = (sender, reader, behind)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leave(client)
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError, OSError):
                    await task
        why = (TOO_SLOW, "This window did not read for too long.") if client.behind.is_set() else None
        if reader.done() and not reader.cancelled() and reader.exception() is None:
            why = NO_TEXT, "A message must be text."
        if why is not None:
            with suppress(TimeoutError, WebSocketDisconnect, RuntimeError, OSError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await websocket.close(*why)

    def _leave(self, client: Client) -> None:
        del self.clients[client.id]
        for callback in self._on_leave:
            callback(client)
        if self.controller == client.id:
            self._give_control(next(iter(self.clients), None))

    def _give_control(self, client_id: str | None) -> None:
        self.controller = client_id
        for callback in self._on_control:
            callback()
        for client in self.clients.values():
            client.push({"type": "control", "mine": self.in_control(client.id)})

    async def _take_control(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        if not self.in_control(client.id):
            self._give_control(client.id)
        return {"control": True}

    async def _read(self, client: Client, websocket: WebSocket) -> None:
        """Commands start in the order in which they came; a long one does not hold up the next. Returns at the first
        message that is no text."""
        answers: set[asyncio.Task[None]] = set()
        try:
            while True:
                message = await websocket.receive()
                if message["type"] == "websocket.disconnect":
                    raise WebSocketDisconnect(message["code"], message.get("reason"))
                if (text := message.get("text")) is None:
                    return
                task = asyncio.create_task(self._answer(client, text))
                answers.add(task)
                task.add_done_callback(answers.discard)
        finally:
            for task in answers:
                task.cancel()

    async def _answer(self, client: Client, text: str) -> None:
        message: dict[str, Any] = {}
        try:
            message = _parsed(text)
            command = self._commands.get(message["do"])
            if command is None:
                raise UserError(f"unknown command {message['do']!r}.")
            if command.changes and not self.in_control(client.id):
                raise UserError(NO_CONTROL)
            answer = await command.handler(client, message)
        except (UserError, EnvFailure) as error:
            answer = {"error": " ".join(str(error).split())}
            if asks := getattr(error, "asks", None):  # a question: see `Unconfirmed`
                answer["asks"] = asks
        except Exception as error:  # a defect: the page gets one line, all of it is in the log
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        client.push({"re": message.get("id"), **answer})


def _parsed(text: str) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("a message must be JSON.") from None
    if not isinstance(message, dict) or not isinstance(message.get("do"), str):
        raise UserError('a message must be an object with "do".')
    return message


def to_json(message: Any) -> str:
    """JSON has no NaN and no infinity: a browser gets null instead."""
    try:
        return json.dumps(message, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(message), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
