"""alerts.json and diagnostics.jsonl: kept in every run's folder, whatever sinks its config names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gymnast.alerts.alert import Alert, write_alerts
from gymnast.core.files import FULL, numbers_to_json
from gymnast.metrics.rows import STEP
from gymnast.sinks.base import RunInfo, Sink


@contextmanager
def unless_full() -> Iterator[None]:
    """Ignores a full disk: what there is no room for is lost, and what comes later is written."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise


class FolderSink(Sink):
    """Alerts are written when one begins or ends, and at the end with their last counts; diagnostics as they come."""

    def __init__(self, info: RunInfo) -> None:
        self._folder = info.place
        self._step = 0
        self._alerts: Sequence[Alert] = ()
        self._written: list[tuple[str, bool]] = []

    def alerts(self, step: int, alerts: Sequence[Alert]) -> None:
        self._step, self._alerts = step, alerts
        state = [(alert.rule, alert.firing) for alert in alerts]
        if state != self._written:
            with unless_full():  # then they are written after the next row
                write_alerts(self._folder / "alerts.json", step, alerts)
                self._written = state

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        line = json.dumps(numbers_to_json({STEP: step, **record}), separators=(",", ":"), allow_nan=False)
        with unless_full(), open(self._folder / "diagnostics.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def close(self) -> None:
        write_alerts(self._folder / "alerts.json", self._step, self._alerts)
