"""trackio: a dashboard on this machine, without an account. Runs in a tracker's worker (see `process.py`)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymnast.alerts.alert import Alert
from gymnast.alerts.text import alert_line
from gymnast.sinks.trackers.tracker import Opening, Tracker

PROJECT = "gymnast"
REMOTE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")  # a user who sets one of these asks for the network


class TrackioTracker(Tracker):
    package = extra = "trackio"
    brings = "runs in a local dashboard"

    def __init__(self, opening: Opening) -> None:
        if not any(os.environ.get(name) for name in REMOTE):
            os.environ["HF_HUB_OFFLINE"] = "1"
        import trackio

        self._trackio = trackio
        self._troubles: list[str] = []
        warnings.showwarning = self._listen  # trackio never raises: it warns, and drops what it could not keep
        warnings.simplefilter("always", UserWarning)
        run = opening.run
        self._run = trackio.init(PROJECT, name=run.name, config=run.config, resume="allow", embed=False)
        self.note = f'trackio: see it with: trackio show --project "{PROJECT}"'

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._log(step, row)

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        self._log(
            step,
            {
                f"histograms/{name}": self._trackio.Histogram(np_histogram=(found["counts"], found["edges"]))
                for name, found in record["histograms"].items()
            },
        )

    def checkpoint(self, step: int, saved: Mapping[str, Any]) -> None:
        self._log(step, {f"checkpoints/{name.partition('_')[0]}": saved["seconds"] for name in saved["names"]})

    def video(self, step: int, path: str) -> None:
        self._log(step, {f"videos/{Path(path).stem.partition('_')[0]}": self._trackio.Video(path)})

    def alert(self, step: int, data: Mapping[str, Any]) -> None:
        alert = Alert.from_json(data)
        levels = self._trackio.AlertLevel
        level = {"error": levels.ERROR, "warning": levels.WARN, "info": levels.INFO}[alert.severity]
        self._run.alert(alert.rule, alert_line(alert), level=level, step=step)
        self._raise_troubles()

    def close(self, status: str) -> None:
        self._run.finish()
        self._raise_troubles()

    def _log(self, step: int, data: Mapping[str, Any]) -> None:
        self._run.log(dict(data), step=step)
        self._raise_troubles()

    def _listen(self, message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        text = str(message)
        print(f"{category.__name__}: {text}")
        if category is UserWarning and ("trackio" in text.lower() or "flush" in text):
            self._troubles.append(text)

    def _raise_troubles(self) -> None:
        if self._troubles:
            raise RuntimeError(self._troubles[0])
