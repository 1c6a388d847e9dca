"""What verbs return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymnast.alerts.alert import Alert
    from gymnast.config import RunConfig


@dataclass(frozen=True)
class Facts:
    """Names and what was found out about them: people are shown the same as programs."""

    data: dict[str, Any]  # as JSON

    def to_json(self) -> dict[str, Any]:
        return self.data


@dataclass(frozen=True)
class Scored(Facts):
    """How a run ended, or what a saved agent scored on fresh episodes."""

    run: str
    config: RunConfig
    threshold: float | None
    next: list[tuple[str, str]]  # command, what it does
    alerts: list[Alert] = field(default_factory=list)

    @property
    def is_solved(self) -> bool:
        return bool(self.data.get("solved"))

    @property
    def exit_code(self) -> int:
        """As of a program that Ctrl-C has ended, where it has: `train && next` goes no further."""
        return 130 if self.data.get("stop_reason") == "interrupted" else 0


@dataclass(frozen=True)
class Launched(Scored):
    """A run that goes on elsewhere."""

    @property
    def exit_code(self) -> int:
        return 0
