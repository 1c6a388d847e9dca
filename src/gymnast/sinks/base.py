"""What a sink is, and what it knows of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from gymnast.alerts.alert import Alert
    from gymnast.core.pulse import Pulse

FILES, TRACKERS, DISPLAYS = range(3)  # the order in which sinks are closed


@dataclass(frozen=True)
class RunInfo:
    """All that is known of a run before its first row."""

    folder: Path | None  # None: the run keeps nothing
    id: str = ""
    start_step: int = 0  # env steps when this process took over; what a sink has of later ones was lost
    threshold: float | None = None  # that counts as solved
    evaluated_on: str | None = None  # the env of the scores, where it is not the one of training
    quiet: bool = False
    config: dict[str, Any] = field(default_factory=dict)  # as JSON

    @property
    def env(self) -> str:
        return str(self.config["env"]["id"])

    @property
    def algo(self) -> str:
        return str(self.config["algo"]["name"])

    @property
    def total_steps(self) -> int:
        return int(self.config["train"]["total_timesteps"])

    @property
    def stages(self) -> list[str]:
        return list(self.config.get("stages", {}))

    @property
    def title(self) -> str:
        scored = "" if self.evaluated_on is None else f"evaluated on {self.evaluated_on}"
        tasks = ", ".join(task["name"] for task in self.config.get("tasks", ()))
        parts = (self.env, tasks, self.algo, f"seed {self.config['train']['seed']}", self.id, scored)
        return " · ".join(part for part in parts if part)

    @property
    def name(self) -> str:
        """As dashboards show it: ppo-w8v2v."""
        return f"{self.algo}-{self.id.split('-')[0]}"

    @property
    def place(self) -> Path:
        """The folder, of a run that has one."""
        if self.folder is None:
            raise ValueError("a run without a folder has no place for files")
        return self.folder

    @property
    def metrics_path(self) -> Path:
        return self.place / "metrics.jsonl"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "folder": str(self.place)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "folder": Path(data["folder"])})


class SinkFailed(Exception):
    """Says all there is to say about a sink's end, in one line."""


class Sink:
    """Mirrors what it is given and cannot stop a run. All methods are empty here: a sink has those it needs."""

    closes = FILES  # before the run's folder is complete; trackers and displays stay open for what comes after

    def __init__(self, info: RunInfo) -> None:
        """Opened before the first row."""

    def write(self, step: int, row: dict[str, float]) -> None:
        """A row of metrics."""

    def notice(self, text: str) -> None:
        """A message for people: "checkpoint saved", "solved"."""

    def follow(self, pulse: Pulse) -> None:
        """Where the run is between two rows, for a display that moves by itself."""

    def alert(self, step: int, alert: Alert) -> None:
        """An alert when it first fires: once a rule and run."""

    def alerts(self, step: int, alerts: Sequence[Alert]) -> None:
        """All alerts so far, most urgent first, after every row."""

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        """What is no scalar: histograms, layers, actions, observations."""

    def checkpoint(self, step: int, names: Sequence[str], seconds: float) -> None:
        """Checkpoints that were saved, and how long that took."""

    def video(self, step: int, path: Path) -> None:
        """A finished mp4 file, which stays where it is, of the agent of `step`; that may be long ago."""

    def end(self, status: str) -> None:
        """How the run ended; `close` follows when all sinks know."""

    def close(self) -> None:
        """Nothing comes any more."""
