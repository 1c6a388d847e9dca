"""Sessions of the page: a process each, in which an env is played and agents are looked at.

A process that crashes is a message to the windows that look on, and nothing else. A session that no window looks at is
closed after a while.
"""

from __future__ import annotations

import asyncio
import threading
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from gymnast.core.errors import UserError
from gymnast.jobs.worker import Event, Job, Worker, WorkerLost
from gymnast.studio.allowed import checkpoint_inside, confirm_code
from gymnast.studio.socket import Client, Hub

WORK = "gymnast.studio.work:serve"
ALONE_SECONDS = 30.0  # that a session stays without a window
SPARE_SECONDS = 3.0  # after a session was opened, until a process for the next one is started
MOST_SESSIONS = 8
SAVE_SECONDS = 10.0  # for a recording to be saved before its process ends
NO_KEYS = {"do": "keys", "down": [], "blur": True}
SAVE = {"do": "record", "on": False}
READING = ("state", "episodes", "episode", "moment", "advantages")  # what a window without control may do
CHANGING = (
    "play", "pause", "step", "fps", "keys", "reset", "record", "two_players", "record_episodes", "branch", "rollouts",
    "map", "cancel",
)  # fmt: skip


class Session:
    """A process, the windows that look on, and the commands that were not answered yet."""

    def __init__(self, number: int, runs_dir: Path, on_end: Callable[[Session], None]) -> None:
        self.number, self.clients = number, dict[str, Client]()
        self.opening: dict[str, Any] = {}
        self.about: dict[str, Any] = {}
        self.closing: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._on_end, self._asked, self._count = on_end, dict[int, tuple[Client | None, asyncio.Future[Any]]](), 0
        self._opened: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._worker = Worker(Job(WORK, {"session": number, "runs_dir": str(runs_dir)}), threads=1)
        self._commands: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        for work in (self._hear, self._tell):
            threading.Thread(target=work, name=f"session {number}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._worker.pid

    def open(self, opening: dict[str, Any]) -> None:
        """What it is for; until then it loads what every session needs."""
        self.opening = opening
        self._commands.put({"do": "open", **opening})

    async def ready(self) -> dict[str, Any]:
        """What is known of it once it is open."""
        self.about = await asyncio.shield(self._opened)
        return self.about

    async def ask(self, client: Client | None, command: dict[str, Any]) -> dict[str, Any]:
        """The answer to a command. It is sent at once: commands arrive in the order in which they were asked."""
        self._count += 1
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        number = self._count
        self._asked[number] = client, future
        self._commands.put({**command, "to": number})
        try:
            answer = await future
        finally:
            self._asked.pop(number, None)
        if "error" in answer:
            raise UserError(answer["error"])
        return answer

    def tell(self, command: dict[str, Any]) -> None:
        """A command whose answer nobody waits for."""
        self._commands.put({**command, "to": 0})

    async def save_and_close(self) -> None:
        """What is recorded must not be lost. What is computed for a window that is gone may be."""
        if self._opened.done():
            self.tell({"do": "cancel"})
            with suppress(TimeoutError, UserError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await self.ask(None, SAVE)
        self.close()

    def close(self) -> None:
        if self.closing is not None:
            self.closing.cancel()
        self._commands.put(None)
        self._worker.kill()

    # threads of their own, so that nothing waits for the process

    def _tell(self) -> None:
        while (command := self._commands.get()) is not None:
            self._worker.give(command)

    def _hear(self) -> None:
        try:
            while True:
                event = self._worker.hear(None)
                assert event is not None
                self._later(self._handle, event)
        except WorkerLost as lost:
            self._worker.close()
            self._later(self._end, str(lost))

    def _later(self, call: Callable[[Any], None], argument: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, argument)

    # in the event loop

    def _handle(self, event: Event) -> None:
        data = event.data
        if event.kind == "ready":
            if not self._opened.done():
                self._opened.set_result(data["about"])
        elif "packet" in data:
            self._forward(b64decode(data["packet"]), data["kind"], data["to"])
        elif "push" in data:
            for client in self.clients.values():
                client.push(data["push"])
        elif data["to"] in self._asked and not (future := self._asked[data["to"]][1]).done():
            future.set_result(data["answer"])

    def _forward(self, packet: bytes, kind: int, to: int | None) -> None:
        if to is not None:
            if to in self._asked and (client := self._asked[to][0]) is not None:
                client.push_bytes(packet)
            return
        for client in self.clients.values():
            client.push_frame((self.number, kind), packet)

    def _end(self, error: str) -> None:
        self._commands.put(None)
        if not self._opened.done():
            self._opened.set_exception(UserError(error))
            self._opened.exception()  # seen: nobody may be waiting
        for _, future in self._asked.values():
            if not future.done():
                future.set_exception(UserError(error))
        for client in self.clients.values():
            client.push({"type": "ended", "session": self.number, "error": error})
        self._on_end(self)


class Sessions:
    """All sessions of a Studio."""

    def __init__(self, hub: Hub, runs_dir: Path) -> None:
        self._hub, self._runs_dir, self._count = hub, runs_dir, 0
        self.open: dict[int, Session] = {}
        self.spare: Session | None = None  # that the next window need not wait for
        hub.on("open", self._open, changes=True)
        hub.on("close", self._close, changes=True)
        hub.on("sessions", self._list)
        hub.on("join", self._join)
        hub.on("leave", self._leave)
        for do in READING:
            hub.on(do, self._ask)
        for do in CHANGING:
            hub.on(do, self._ask, changes=True)
        hub.on_leave(self._gone)
        hub.on_control(self._release_keys)

    async def close(self) -> None:
        """Ends every process."""
        ending, spare = list(self.open.values()), self.spare
        self.open, self.spare = {}, None
        if spare is not None:
            spare.close()
        await asyncio.gather(*(session.save_and_close() for session in ending))

    def _prepare(self) -> None:
        """The next session need not wait for its process. None waits where nobody plays."""
        if self.open and self.spare is None:
            self.spare = self._start()

    def _start(self) -> Session:
        self._count += 1
        return Session(self._count, self._runs_dir, self._ended)

    async def _open(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        if len(self.open) >= MOST_SESSIONS:
            await self._close_lonely()
        if len(self.open) >= MOST_SESSIONS:
            raise UserError(f"{MOST_SESSIONS} sessions are open already: close a window first.")
        opening = {key: message.get(key) for key in ("ref", "env", "against")} | {"changes": message.get("set") or {}}
        texts = all(value is None or isinstance(value, str) for key, value in opening.items() if key != "changes")
        if not texts or not isinstance(opening["changes"], dict):
            raise UserError("open: ref, env and against must be texts, and set an object.")
        opening["trust"] = message.get("trust") is True
        await asyncio.to_thread(self._confirm, opening)
        session, self.spare = self.spare or self._start(), None
        self.open[session.number] = session
        session.clients[client.id] = client
        session.open(opening)
        about = await session.ready()
        asyncio.get_running_loop().call_later(SPARE_SECONDS, self._prepare)
        return {"session": session.number, "about": about}

    def _confirm(self, opening: dict[str, Any]) -> None:
        """Asks before a run of somebody else has code imported; what else is wrong is said by the session's process."""
        for ref in (opening["ref"], opening["against"]):
            if ref not in (None, "random"):
                confirm_code(checkpoint_inside(self._runs_dir, ref)[1], opening["trust"])

    async def _join(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        """Another window looks on."""
        session = self._find(message)
        about = await session.ready()
        session.clients[client.id] = client
        if session.closing is not None:
            session.closing.cancel()
            session.closing = None
        state = await session.ask(client, {"do": "state"})
        return {"session": session.number, "about": about, **state}

    async def _leave(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        self._without(self._find(message), client)
        return {}

    async def _close(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        await self._find(message).save_and_close()
        return {}

    async def _list(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        shown = [
            {"session": one.number, "windows": len(one.clients)}
            | {key: one.opening[key] for key in ("ref", "env", "against")}
            for one in self.open.values()
        ]
        return {"sessions": shown}

    async def _ask(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        session = self._find(message)
        return await session.ask(
            client, {key: value for key, value in message.items() if key not in ("id", "session", "to")}
        )

    def _find(self, message: dict[str, Any]) -> Session:
        number = message.get("session")
        session = self.open.get(number) if isinstance(number, int) else None
        if session is None:
            raise UserError(f"session {number!r} is not open (any more).")
        return session

    def _gone(self, client: Client) -> None:
        for session in self.open.values():
            self._without(session, client)

    def _release_keys(self) -> None:
        """Of the window that had control."""
        for session in self.open.values():
            session.tell(NO_KEYS)

    def _without(self, session: Session, client: Client) -> None:
        """A window is gone: its keys are released, and a session without any window ends after a while."""
        if session.clients.pop(client.id, None) is None:
            return
        if self._hub.in_control(client.id):
            session.tell(NO_KEYS)
        if not session.clients:
            session.tell({"do": "pause"})
            session.tell(SAVE)
            session.closing = asyncio.get_running_loop().call_later(ALONE_SECONDS, session.close)

    async def _close_lonely(self) -> None:
        lonely = [session for session in self.open.values() if not session.clients]
        for session in lonely:
            self.open.pop(session.number)
        await asyncio.gather(*(session.save_and_close() for session in lonely))

    def _ended(self, session: Session) -> None:
        self.open.pop(session.number, None)
        if session is self.spare:
            self.spare = None
        elif not self.open and self.spare is not None:  # nobody plays: nothing waits
            self.spare.close()
            self.spare = None


def attach(hub: Hub, runs_dir: Path) -> Sessions:
    """Has a hub answer everything about sessions."""
    return Sessions(hub, runs_dir)
