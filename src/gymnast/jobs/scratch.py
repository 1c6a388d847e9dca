"""Folders for files of a process that end with it; what a killed one has left is removed by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "gymnast-job-"


class Scratch:
    """A folder in the temporary directory. Its lock says that its process lives: the system drops it with the process,
    whatever killed that."""

    def __init__(self) -> None:
        remove_abandoned()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._handle = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            if self.path.exists():
                return
            os.close(self._handle)  # another process took it for an abandoned one, just before the lock

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._handle)


def remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, or just gone
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)
