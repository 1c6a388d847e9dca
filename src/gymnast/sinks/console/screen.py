"""A picture at the foot of a terminal, drawn again and again; what is printed meanwhile goes above it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

FASTEST, SLOWEST = 0.25, 0.5  # seconds between two ticks
SHARE = 0.02  # of a core that ticks may take, as far as SLOWEST allows
LAST_SECONDS = 2.0  # that the end of a run waits for a terminal that takes nothing
HOME, EMPTY_LINE, DOWN = "\x1b[H", "\x1b[2K", "\x1b[B"


class Ticker:
    """Calls a function at least twice a second in a thread of its own, whatever the main thread is doing."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._ending = threading.Event()
        self.failure: Exception | None = None  # what has ended the thread
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        wait = FASTEST
        while not self._ending.wait(wait):
            before = thread_time()  # without the time that a slow terminal makes it wait
            try:
                self._act()
            except Exception as error:  # whatever a terminal or a metric does: it is raised where a sink may fail
                self.failure = error
                return
            wait = min(max(FASTEST, (thread_time() - before) / SHARE), SLOWEST)

    def close(self) -> None:
        self._ending.set()
        self._thread.join(LAST_SECONDS)


class Screen:
    """`draw` makes the picture for a terminal that many lines high."""

    def __init__(self, stream: IO[str], draw: Callable[[int], RenderableType]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._stream, self._draw = stream, draw
        self._console = Console(file=stream)
        self._size = self._console.size
        self._lock = threading.RLock()
        picture = draw(self._size.height - 1)
        self._live = Live(picture, console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()
        self._echoes_keys(False)

    def refresh(self) -> None:
        with self._lock:
            if self._console.size != self._size:
                # Lines of another width are not where they were. What was printed before is in the log, too.
                self._size = self._console.size
                self._live._live_render._shape = None  # nothing to go back over
                # line by line: terminals keep what is cleared as a whole, and one would find it on scrolling back
                self._stream.write(HOME + (EMPTY_LINE + DOWN) * self._size.height + HOME)
            self._live.update(self._draw(self._size.height - 1), refresh=True)

    def print(self, text: str) -> None:
        from rich.text import Text

        with self._lock:
            self._console.print(Text(f"› {text}", style="yellow"))

    def close(self) -> None:
        """The last picture stays; the terminal is as it was."""
        try:
            self.refresh()
        finally:
            self._live.stop()
            self._echoes_keys(True)

    def _echoes_keys(self, on: bool) -> None:
        """Ctrl-C as "^C": it would stand in the picture and push it aside."""
        import termios

        with suppress(OSError, ValueError, termios.error):  # no terminal after all
            terminal = self._stream.fileno()
            if os.tcgetpgrp(terminal) == os.getpgrp():  # a process in the background would be stopped for it
                mode = termios.tcgetattr(terminal)
                mode[3] = mode[3] | termios.ECHOCTL if on else mode[3] & ~termios.ECHOCTL
                termios.tcsetattr(terminal, termios.TCSANOW, mode)
