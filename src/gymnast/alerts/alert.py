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

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.files import number_from_json, write_json

SEVERITIES = ("error", "warning", "info")  # it cannot learn like this; it learns worse; good to know


@dataclass(frozen=True)
class Evidence:
    """A metric's value when the rule last fired, and the bound it crossed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass
class Alert:
    """What one rule has found in a run so far."""

    rule: str
    severity: str
    since: int  # env steps when it first fired
    last: int  # env steps of the last row on which it fired
    count: int  # rows on which it fired
    firing: bool  # on the newest row
    message: str  # what is seen, in a sentence
    cause: str  # what it is likely to come from
    evidence: dict[str, Evidence] = field(default_factory=dict)
    patch: dict[str, Any] | None = None  # dotted config key: the value to try
    command: str | None = None  # that tries it; None where the run did not come from a command

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
        evidence = {
            name: Evidence(**{key: number_from_json(value) for key, value in found.items()})
            for name, found in data["evidence"].items()
        }
        return cls(**{**data, "evidence": evidence})


def write_alerts(path: Path, env_steps: int, alerts: Sequence[Alert]) -> None:
    write_json(path, {"env_steps": env_steps, "alerts": [alert.to_json() for alert in alerts]})


def read_alerts(path: Path) -> list[Alert]:
    """Of a run's alerts.json, most urgent first; no file is no alerts."""
    if not path.is_file():
        return []
    try:
        return [Alert.from_json(alert) for alert in json.loads(path.read_text(encoding="utf-8"))["alerts"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} cannot be read: {error}. Delete it; the run's other files are untouched.") from error
