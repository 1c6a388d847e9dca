"""Where rows go. A sink is two methods; it mirrors what it is given and cannot stop a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from gymnast.core.registry import SINKS
from gymnast.sinks.folder import FolderSink
from gymnast.sinks.trackers.sink import TrackedRun, TrackerFailed, TrackerSink, is_tracker

if TYPE_CHECKING:
    from gymnast.alerts.alert import Alert


class Sink(Protocol):
    def write(self, step: int, row: dict[str, float]) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Display(Protocol):
    """A sink somebody looks at: it also takes messages, and the step between two rows."""

    def notice(self, text: str) -> None: ...

    def tick(self, step: int) -> None: ...


@runtime_checkable
class AlertEvents(Protocol):
    """A sink that passes on an alert when it first fires: once a rule and run."""

    def alert(self, step: int, alert: Alert) -> None: ...


@runtime_checkable
class AlertList(Protocol):
    """A sink that shows or keeps all alerts so far, most urgent first: called after every row."""

    def alerts(self, step: int, alerts: Sequence[Alert]) -> None: ...


@runtime_checkable
class DiagnosticsSink(Protocol):
    """A sink that takes what is no scalar: histograms, layers, actions, observations (`diagnostics.diagnose`)."""

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None: ...


@runtime_checkable
class CheckpointSink(Protocol):
    """A sink that notes when checkpoints were saved, and how long that took."""

    def checkpoint(self, step: int, names: Sequence[str], seconds: float) -> None: ...


@runtime_checkable
class VideoSink(Protocol):
    """A sink that shows films: `path` is a finished mp4 file that stays where it is."""

    def video(self, step: int, path: Path) -> None: ...


class SinkGroup:
    """Writes to all; one that fails is dropped with one warning, and training goes on."""

    def __init__(self, sinks: Iterable[Sink], warn: Callable[[str], None]) -> None:
        self._sinks = list(sinks)
        self._warn = warn

    def write(self, step: int, row: dict[str, float]) -> None:
        self._each(lambda sink: sink.write(step, dict(row)))

    def notice(self, text: str) -> None:
        """A message for whoever looks: "checkpoint saved", "solved"."""
        self._each(lambda sink: sink.notice(text) if isinstance(sink, Display) else None)

    def warn(self, text: str) -> None:
        """A message that must not be missed."""
        self._warn(text)

    def tick(self, step: int) -> None:
        """Between two rows, as often as you like: keeps a progress bar moving."""
        self._each(lambda sink: sink.tick(step) if isinstance(sink, Display) else None)

    def tell(self, step: int, alerts: Sequence[Alert], record: Mapping[str, Any] | None) -> None:
        """All of the run's alerts after the row of `step`, and its diagnostics where it has any."""

        def tell(sink: Sink) -> None:
            if isinstance(sink, AlertEvents):
                for alert in alerts:
                    if alert.since == step:
                        sink.alert(step, alert)
            if isinstance(sink, AlertList):
                sink.alerts(step, alerts)
            if isinstance(sink, DiagnosticsSink) and record is not None:
                sink.diagnostics(step, record)

        self._each(tell)

    def checkpoint(self, step: int, names: Sequence[str], seconds: float) -> None:
        self._each(lambda sink: sink.checkpoint(step, names, seconds) if isinstance(sink, CheckpointSink) else None)

    def video(self, step: int, path: Path) -> None:
        """A film of the agent of `step`; it may come long after that step's row."""
        self._each(lambda sink: sink.video(step, path) if isinstance(sink, VideoSink) else None)

    def close_files(self) -> None:
        """What lies in the run's folder is complete after this; trackers and displays stay open."""
        self._each(lambda sink: None if isinstance(sink, TrackerSink | Display) else sink.close())
        self._sinks = [sink for sink in self._sinks if isinstance(sink, TrackerSink | Display)]

    def close(self, status: str = "finished") -> None:
        """Files first, for trackers to send; then all trackers at once; displays last, to say how it went."""
        self.close_files()
        self._each(lambda sink: sink.end(status) if isinstance(sink, TrackerSink) else None)
        self._each(lambda sink: sink.close() if isinstance(sink, TrackerSink) else None)
        self._each(lambda sink: sink.close() if isinstance(sink, Display) else None)
        self._sinks = []

    def _each(self, act: Callable[[Sink], None]) -> None:
        for sink in list(self._sinks):
            try:
                act(sink)
            except Exception as error:  # whatever a tracker's client raises, hours of training are worth more
                self._sinks.remove(sink)
                told = f"{type(sink).__name__} failed and gets no more rows: {type(error).__name__}: {error}"
                self._warn(str(error) if isinstance(error, TrackerFailed) else told)


def make_sinks(
    names: Sequence[str],
    *,
    title: str,
    total_steps: int,
    start_step: int,
    facts: Mapping[str, Any],
    metrics_path: Path,
    quiet: bool,
    warn: Callable[[str], None],
    run: TrackedRun | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> SinkGroup:
    """The sinks a config names, and the run's folder, which keeps alerts and diagnostics whatever the config says.

    `run` is what trackers are told; `note` takes what they say.
    """
    options: dict[str, dict[str, Any]] = {
        "console": {
            "title": title,
            "total_steps": total_steps,
            "start_step": start_step,
            "facts": facts,
            "quiet": quiet,
        },
        "jsonl": {"path": metrics_path},
        "csv": {"path": metrics_path.with_suffix(".csv"), "history": metrics_path},
    }
    trackers = [name for name in names if is_tracker(name)]
    sinks: list[Sink] = [SINKS.get(name)(**options.get(name, {})) for name in names if name not in trackers]
    if trackers and run is None:
        raise ValueError(f"{', '.join(trackers)}: a tracker needs a run")
    tracked = [TrackerSink(name, run, note) for name in trackers if run is not None]
    return SinkGroup([*sinks, FolderSink(metrics_path.parent), *tracked], warn)
