"""Alerts: what a run's rows say is wrong, with evidence, likely cause, and one change that may help.

An alert is data. A run's folder keeps all of them in `alerts.json`, most urgent first:

    {"env_steps": 40960, "alerts": [{
        "rule": "kl_high", "severity": "warning", "firing": true, "since": 8192, "last": 40960, "count": 16,
        "evidence": {"train/approx_kl": {"value": 2.31, "high": 0.1}},
        "message": "...", "cause": "...",
        "patch": {"algo.learning_rate": 0.003},
        "command": "gymnast train CartPole-v1 --set algo.learning_rate=0.003"}]}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from gymnast.core.files import write_json
from gymnast.core.typed import Count, Number, Text, read_typed, typed

SEVERITIES = ("error", "warning", "info")  # it cannot learn like this; it learns worse; good to know


@dataclass(frozen=True)
class Evidence:
    """A metric's value when the rule last fired, and the bound it crossed."""

    value: Number
    low: Number | None = None
    high: Number | None = None


@dataclass
class Alert:
    """What one rule has found in a run so far."""

    rule: Text
    severity: Annotated[str, Field(pattern=f"^({'|'.join(SEVERITIES)})$")]
    since: Count  # env steps when it first fired
    last: Count  # env steps of the last row on which it fired
    count: Count  # rows on which it fired
    firing: bool  # on the newest row
    message: Text  # what is seen, in a sentence
    cause: Text  # what it is likely to come from
    evidence: dict[str, Evidence] = field(default_factory=dict)
    patch: dict[str, Any] | None = None  # dotted config key: the value to try
    command: Text | None = None  # that tries it; None where the run did not come from a command

    @property
    def urgency(self) -> tuple[int, bool]:
        """Sorts the most urgent first; equals stay in the order of the rules."""
        return SEVERITIES.index(self.severity), not self.firing

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["evidence"] = {
            name: {key: value for key, value in found.items() if value is not None}
            for name, found in data["evidence"].items()
        }
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Alert:
        """ValueError where the data are no alert."""
        return typed(ALERT, data)


ALERT = TypeAdapter(Alert)


class _File(TypedDict):
    alerts: list[Alert]


FILE = TypeAdapter(_File)


def write_alerts(path: Path, env_steps: int, alerts: Sequence[Alert]) -> None:
    write_json(path, {"env_steps": env_steps, "alerts": [alert.to_json() for alert in alerts]})


def read_alerts(path: Path) -> list[Alert]:
    """Of a run's alerts.json, most urgent first; no file is no alerts, one that cannot be read a UserError."""
    return read_typed(path, FILE)["alerts"] if os.path.lexists(path) else []
