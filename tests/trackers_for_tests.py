"""Trackers that misbehave, and one that writes down what it hears. Each runs in a tracker's worker."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from gymnast.sinks.trackers.tracker import Opening, Tracker


class Keeps(Tracker):
    """A line of JSON for everything it hears, in heard.jsonl of its folder."""

    package = "json"  # any that is there
    note = "keeps: here I am"

    def __init__(self, opening: Opening) -> None:
        self._file = open(opening.folder / "heard.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._keep("open", opening.last, opening.run.name)

    def write(self, step: int, data: Any) -> None:
        self._keep("write", step, data)

    def alert(self, step: int, data: Any) -> None:
        self._keep("alert", step, data)

    def diagnostics(self, step: int, data: Any) -> None:
        self._keep("diagnostics", step, data)

    def checkpoint(self, step: int, data: Any) -> None:
        self._keep("checkpoint", step, data)

    def video(self, step: int, data: Any) -> None:
        self._keep("video", step, data)

    def close(self, status: str) -> None:
        self._keep("close", 0, status)
        self._file.close()

    def _keep(self, do: str, step: int, data: Any) -> None:
        print(json.dumps([do, step, data]), file=self._file, flush=True)


class Bad(Keeps):
    """Does something bad with its third row."""

    rows = 0

    def write(self, step: int, data: Any) -> None:
        self.rows += 1
        if self.rows == 3:
            self.misbehave()
        super().write(step, data)

    def misbehave(self) -> None:
        raise NotImplementedError


class Raises(Bad):
    def misbehave(self) -> None:
        print("about to fail, loudly")
        raise ConnectionError("the server is down\nand has more to say")


class Hangs(Bad):
    def misbehave(self) -> None:
        time.sleep(3600)


class Vanishes(Bad):
    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class HangsAtTheEnd(Keeps):
    def close(self, status: str) -> None:
        time.sleep(3600)


class CannotOpen(Keeps):
    def __init__(self, opening: Opening) -> None:
        raise PermissionError("who are you?")
