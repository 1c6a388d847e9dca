"""How a verb that takes long says how far it is. A terminal supplies a bar; this one shows nothing."""

from __future__ import annotations

from collections.abc import Sequence


class Progress:
    def plan(self, amount: float) -> None:
        """That much more to come: seconds, steps, whatever the verb counts."""

    def step(self, what: str) -> None:
        """Something begins."""

    def done(self, amount: float = 1.0) -> None:
        """That much of the plan has ended."""

    def say(self, text: str, failed: bool = False) -> None:
        """A line that stays."""

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """What is known so far; it takes the place of the table before."""


SILENT = Progress()
