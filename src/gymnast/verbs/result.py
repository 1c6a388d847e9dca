"""What verbs return."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymnast.alerts.alert import Alert
    from gymnast.config import RunConfig


@dataclass(frozen=True)
class Result:
    """Its fields are its JSON, unless a verb's own result says otherwise."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Scored:
    """How a run ended, or what a saved agent scored on fresh episodes."""

    run: str
    config: RunConfig
    threshold: float | None
    data: dict[str, Any]  # its JSON
    next: list[tuple[str, str]]  # command, what it does
    alerts: list[Alert] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return self.data
