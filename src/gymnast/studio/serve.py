"""Studio as a program: a free port, a token, the browser, and a clean end."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from gymnast.core.errors import UserError
from gymnast.studio import TOKEN
from gymnast.studio.app import make_app
from gymnast.studio.guard import ANYWHERE

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, the terminal is closed
HEADER_SECONDS = 10.0  # in which a connection must have asked for something
PATIENCE = 1  # seconds for answers under way when it ends; an open page would keep it for ever


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """One that never sends the headers of a request is closed: it would take a file descriptor for ever."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.loop.call_later(HEADER_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        """A websocket has a protocol of its own by then."""
        if self.cycle is None and self.transport.get_protocol() is self:
            self.transport.close()


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether what uvicorn reports is Studio's concern: it closes a websocket that sends broken UTF-8 by itself."""
    return not record.getMessage().startswith("Invalid UTF-8")


class Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn knows no SIGHUP, and raises the signal again when all is closed; here it is the usual end."""
        before = {number: signal.signal(number, self.handle_exit) for number in ENDS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    runs_dir: Path,
    page: str,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    browser: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Until a signal ends it. `page`: the path that is opened, e.g. /runs/@last; port 0 is any free one."""
    if not _is_loopback(host) and not token:
        raise UserError(f"--host {host}: other machines could use it; choose a secret in {TOKEN}, or with --token.")
    if token and not re.fullmatch(r"[A-Za-z0-9_-]{8,200}", token):
        raise UserError(f"--token (or {TOKEN}): must be at least 8 letters, digits, '-' or '_'.")
    listener = _listen(host, port)
    with listener:
        port = listener.getsockname()[1]
        token = token or secrets.token_urlsafe(16)
        once = secrets.token_urlsafe(16)
        app = make_app(runs_dir, token, host, port, once)
        shown = host if host not in ANYWHERE else socket.gethostname()
        name = f"[{shown}]" if ":" in shown else shown
        place = f"http://{name}:{port}{page}{'&' if '?' in page else '?'}"
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            http=Connection,
            ws="websockets-sansio",
            ws_max_size=1 << 20,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=PATIENCE,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_ours)
        say(f"Studio of {runs_dir}: {place}token={token}")
        say("Ctrl-C ends it. Runs that were started from the page go on.")
        # the listener exists already: the first request waits in it
        opening = Timer(0.2, webbrowser.open, [f"{place}once={once}"])
        opening.daemon = True
        if browser:
            opening.start()
        Server(config).run(sockets=[listener])
    say("Studio has ended.")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=64)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise UserError(f"--host {host} --port {port}: cannot listen there: {reason}. Choose another port.") from None
