"""How a verb that takes long says how far it is. A terminal supplies a bar; without one nothing is shown."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def plan(self, amount: float) -> None:
        """That much more to come: seconds, steps, whatever the verb counts."""

    def step(self, what: str) -> None:
        """Something begins."""

    def done(self, amount: float = 1.0) -> None:
        """That much of the plan has ended."""

    def say(self, text: str, failed: bool = False) -> None:
        """A line that stays."""


class Silent:
    """For whoever does not look."""

    def plan(self, amount: float) -> None: ...

    def step(self, what: str) -> None: ...

    def done(self, amount: float = 1.0) -> None: ...

    def say(self, text: str, failed: bool = False) -> None: ...


SILENT = Silent()
