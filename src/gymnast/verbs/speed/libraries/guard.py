"""Kills process groups, named a line each, when whoever named them is gone: however it ended, nobody else could.

Run by path, so nothing of Gymnast is imported.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

if __name__ == "__main__":
    for group in sys.stdin.readlines():  # until the other end of the pipe is closed
        with suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(int(group), signal.SIGKILL)  # a stopped process ends by it, too
