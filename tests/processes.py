"""Other processes in tests: awaited with a limit, and never left behind."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, process: subprocess.Popen[Any] | None = None) -> T:
    """Asks until the answer is true, and returns it. Fails when `process` ends first, or when minutes have passed."""
    deadline = time.monotonic() + 100  # far beyond what any machine needs; below the limit of a whole test
    while not (answer := condition()):
        assert process is None or process.poll() is None, f"the process ended before there was {what}"
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.02)
    return answer


def state_of(pid: int) -> str:
    """As ps says it: T is stopped, Z has ended and waits for its parent to ask, an empty one is gone."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1]


def is_alive(pid: int) -> bool:
    return state_of(pid) not in ("", "X", "Z")


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """The process of a command, which is gone at the end of the block whatever happened in it."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
