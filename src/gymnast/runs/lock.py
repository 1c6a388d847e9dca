"""One process trains into a run at a time: a file lock that the system itself drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

LOCK_SECONDS = 0.5  # to wait for the lock; somebody who only looks whether the lock is held has it for microseconds


class RunLock:
    """flock on a file: kept while the file stays open, gone with the process whatever killed it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self, path: Path | None = None) -> bool:
        """False where another process (or another Run object) holds it. `path`: where the file is just now."""
        if self._handle is not None:
            return True
        handle = os.open(path or self._path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(handle)
                    return False
                time.sleep(0.02)
            else:
                self._handle = handle
                _held.add(self)
                return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            _held.discard(self)

    def held(self) -> bool:
        """Whether anyone holds it, this object included."""
        if self._handle is not None:
            return True
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:  # none there, or no file at all
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not see each other
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Nobody else changes run.json meanwhile: the training and whoever tags the run read it and write it again."""
    with ExitStack() as stack:
        with suppress(OSError):  # a file system without locks on folders, or a process that can open nothing more
            handle = os.open(folder, os.O_RDONLY)
            held = stack.enter_context(ExitStack())
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                os.close(os.dup(handle))
            except OSError:  # this was the last file that can be opened, and the caller needs it
                held.close()
        yield


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _drop_in_child() -> None:
    """A forked worker inherits the open file, and a worker that outlives its parent must not keep the run locked."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_drop_in_child)
