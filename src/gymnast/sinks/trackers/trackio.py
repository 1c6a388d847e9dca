"""trackio: a dashboard on this machine, without an account. Runs in a tracker's worker (see `process.py`)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from gymnast.alerts.alert import Alert
from gymnast.alerts.text import alert_line
from gymnast.sinks.trackers.tracker import MediaTracker, Opening

PROJECT = "gymnast"
REMOTE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")  # a user who sets one of these asks for the network


class TrackioTracker(MediaTracker):
    package = extra = "trackio"
    brings = "runs in a local dashboard"

    def __init__(self, opening: Opening) -> None:
        if not any(os.environ.get(name) for name in REMOTE):
            os.environ["HF_HUB_OFFLINE"] = "1"
        import trackio

        self.sdk = trackio
        self._troubles: list[str] = []
        warnings.showwarning = self._listen  # trackio never raises: it warns, and drops what it could not keep
        warnings.simplefilter("always", UserWarning)
        run = opening.run
        self._run = trackio.init(PROJECT, name=run.name, config=run.config, resume="allow", embed=False)
        self.note = f'trackio: see it with: trackio show --project "{PROJECT}"'

    def write(self, step: int, row: Mapping[str, Any]) -> None:
        self._run.log(dict(row), step=step)
        self._raise_troubles()

    def alert(self, step: int, data: Mapping[str, Any]) -> None:
        alert = Alert.from_json(data)
        levels = self.sdk.AlertLevel
        level = {"error": levels.ERROR, "warning": levels.WARN, "info": levels.INFO}[alert.severity]
        self._run.alert(alert.rule, alert_line(alert), level=level, step=step)
        self._raise_troubles()

    def close(self, status: str) -> None:
        self._run.finish()
        self._raise_troubles()

    def _listen(self, message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        text = str(message)
        print(f"{category.__name__}: {text}")
        if category is UserWarning and ("trackio" in text.lower() or "flush" in text):
            self._troubles.append(text)

    def _raise_troubles(self) -> None:
        if self._troubles:
            raise RuntimeError(self._troubles[0])
