"""What a tracker is: W&B, trackio, TensorBoard, seen from inside the process that it lives in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnast.sinks.base import RunInfo


@dataclass(frozen=True)
class Opening:
    """What a tracker begins with."""

    run: RunInfo
    folder: Path  # its own, in the run's
    last: int  # env steps of the newest row it has already; -1: none
    logged: int  # messages it has had


class Tracker:
    """Gets what a sink gets, as JSON, in a process of its own, where it may be slow, print and fail. Methods that a
    tracker has no use for are empty."""

    package: str  # that must be there
    extra: str | None = None  # of ours that installs it
    brings: str = ""  # that extra, in a few words
    rewinds = False  # whether rows after a step can be taken back, by opening it with that step as `last`
    note: str  # for the user: where it is to be seen

    def __init__(self, opening: Opening) -> None:
        """Opened when there is a first row."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """A row of metrics."""

    def alert(self, step: int, data: Mapping[str, Any]) -> None:
        """`Alert.to_json` of one that has just fired."""

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        """Histograms, layers, actions, observations."""

    def checkpoint(self, step: int, saved: Mapping[str, Any]) -> None:
        """The `names` of checkpoints, and the `seconds` that saving them took."""

    def video(self, step: int, path: str) -> None:
        """A finished mp4 file of the agent of that step."""

    def close(self, status: str) -> None:
        """The run has ended: finished, interrupted, crashed or killed."""


class MediaTracker(Tracker):
    """One whose `write` takes more than numbers: `sdk`, its package, has histograms and videos of its own."""

    sdk: Any

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        self.write(step, self.histograms(record))

    def histograms(self, record: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: (one["counts"], one["edges"]) for name, one in record["histograms"].items()}
        return {f"histograms/{name}": self.sdk.Histogram(np_histogram=pair) for name, pair in found.items()}

    def checkpoint(self, step: int, saved: Mapping[str, Any]) -> None:
        """A point for each checkpoint, at its step: the seconds it took."""
        self.write(step, {f"checkpoints/{name.partition('_')[0]}": saved["seconds"] for name in saved["names"]})

    def video(self, step: int, path: str) -> None:
        self.write(step, {f"videos/{Path(path).stem.partition('_')[0]}": self.sdk.Video(path, format="mp4")})
