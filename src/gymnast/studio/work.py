"""What runs in the process of a session: one env, its agents, and everything computed of them.

Commands come as jobs; a thread takes them, so that the pipe is never full and a long computation can be cancelled. What
is said is an event: an answer `to` a command, a `push` for all windows, or a `packet` (a picture).
"""

from __future__ import annotations

import threading
import time
import traceback
from base64 import b64encode
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import EnvFailure, UserError

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel


class Inbox:
    """Commands in their order. `cancel` is for all that came before it."""

    def __init__(self, channel: Channel) -> None:
        self._commands: SimpleQueue[tuple[int, dict[str, Any]]] = SimpleQueue()
        self._current = self._cancelled = 0  # numbers of commands: the one that is done now, and the last cancelled one
        threading.Thread(target=self._read, args=(channel,), name="commands", daemon=True).start()

    def _read(self, channel: Channel) -> None:
        for number, (command, _) in enumerate(channel, 1):
            if command["do"] == "cancel":
                self._cancelled = number
            self._commands.put((number, command))

    def next(self, seconds: float | None) -> dict[str, Any] | None:
        """None: there was none within that time."""
        try:
            self._current, command = self._commands.get(seconds is None or seconds > 0, seconds)
        except Empty:
            return None
        return command

    def is_cancelled(self) -> bool:
        """Whether what is done now should end early."""
        return self._current <= self._cancelled


class Outbox:
    """What a session says."""

    def __init__(self, channel: Channel, session: int) -> None:
        self._channel, self.session, self._seq = channel, session, 0

    def answer(self, to: int, answer: dict[str, Any]) -> None:
        self._channel.event(to=to, answer=answer)

    def push(self, **message: Any) -> None:
        self._channel.event(push={"session": self.session, **message})

    def picture(
        self, kind: int, codec: int, size: tuple[int, int], data: bytes, *, episode: int, t: int, to: int | None = None,
        index: int = 0, layer: int = 0,
    ) -> None:  # fmt: skip
        """`to`: the command that asked for it, whose window gets it for certain; None: all windows, if they can."""
        from gymnast.studio.packets import packet

        self._seq += 1
        whole = packet(
            kind, codec, size, data, session=self.session, episode=episode, t=t, seq=self._seq, index=index, layer=layer
        )
        self._channel.event(packet=b64encode(whole).decode(), kind=kind, to=to)


def serve(channel: Channel, session: int, runs_dir: str) -> None:
    """The first command says what is opened."""
    inbox = Inbox(channel)
    from gymnast.studio.desk import Desk  # takes seconds: a process may be started before anything is to be opened
    from gymnast.studio.opening import Opened

    opening = inbox.next(None)
    assert opening is not None
    asked = [opening[key] for key in ("ref", "env", "changes", "against", "trust")]
    opened = Opened(Path(runs_dir), *asked)
    desk = Desk(opened, inbox, Outbox(channel, session))
    channel.ready(about=desk.about)
    while True:
        command = inbox.next(desk.wait())
        if command is not None:
            obey(desk, command)
        else:
            try:
                desk.tick()
            except Exception as error:  # an env is foreign code: the page learns what happened, and may start again
                desk.stop(said(error))


def obey(desk: Any, command: dict[str, Any]) -> None:
    number = command.pop("to")
    try:
        answer = desk.do(command, number)
    except Exception as error:  # of an env or a network: one line for the page, all of it in the log
        answer = {"error": said(error)}
    desk.out.answer(number, answer)


def said(error: Exception) -> str:
    """In one line."""
    if isinstance(error, UserError | EnvFailure):
        lines = str(error).strip().splitlines() or [""]
        return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"
    traceback.print_exc()
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def now() -> float:
    return time.monotonic()
