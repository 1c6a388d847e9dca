"""Where rows go: the sinks that a config names, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import reason_of
from gymnast.core.registry import SINKS
from gymnast.sinks.base import DISPLAYS, FILES, TRACKERS, RunInfo, Sink, SinkFailed
from gymnast.sinks.folder import FolderSink
from gymnast.sinks.heartbeat import HeartbeatSink
from gymnast.sinks.trackers.sink import TrackerSink, is_tracker

if TYPE_CHECKING:
    from gymnast.alerts.alert import Alert
    from gymnast.core.pulse import Pulse


class SinkGroup:
    """Writes to all; one that fails is dropped with one warning, and training goes on."""

    def __init__(self, sinks: Iterable[Sink], warn: Callable[[str], None]) -> None:
        self._sinks = list(sinks)
        self.warn = warn  # takes a message that must not be missed

    def write(self, step: int, row: dict[str, float]) -> None:
        self._each(lambda sink: sink.write(step, dict(row)))

    def notice(self, text: str) -> None:
        self._each(lambda sink: sink.notice(text))

    def follow(self, pulse: Pulse) -> None:
        self._each(lambda sink: sink.follow(pulse))

    def report(self, step: int, alerts: Sequence[Alert], record: Mapping[str, Any] | None) -> None:
        """All of the run's alerts after the row of `step`, and its diagnostics where it has any."""

        def report(sink: Sink) -> None:
            for alert in alerts:
                if alert.since == step:
                    sink.alert(step, alert)
            sink.alerts(step, alerts)
            if record is not None:
                sink.diagnostics(step, record)

        self._each(report)

    def checkpoint(self, step: int, names: Sequence[str], seconds: float) -> None:
        self._each(lambda sink: sink.checkpoint(step, names, seconds))

    def video(self, step: int, path: Path) -> None:
        self._each(lambda sink: sink.video(step, path))

    def close_files(self) -> None:
        """What lies in the run's folder is complete after this; trackers and displays stay open."""
        self._close(FILES)

    def close(self, status: str = "finished") -> None:
        """Files first, for trackers to send; then all trackers at once; displays last, to say how it went."""
        try:
            self._close(FILES)
            self._each(lambda sink: sink.end(status))
            self._close(TRACKERS)
        finally:  # after Ctrl-C, too: a display has changed the terminal
            self._close(DISPLAYS)

    def _close(self, which: int) -> None:
        self._each(lambda sink: sink.close() if sink.closes == which else None)
        self._sinks = [sink for sink in self._sinks if sink.closes != which]

    def _each(self, act: Callable[[Sink], None]) -> None:
        for sink in list(self._sinks):
            try:
                act(sink)
            except Exception as error:  # whatever a sink raises, hours of training are worth more
                self._sinks.remove(sink)
                why = f"{type(sink).__name__} failed and gets no more rows: {reason_of(error)}"
                self.warn(str(error) if isinstance(error, SinkFailed) else why)


def make_sinks(
    names: Sequence[str],
    info: RunInfo,
    warn: Callable[[str], None],
    note: Callable[[str], None] = lambda text: None,
) -> SinkGroup:
    """Those a config names, and the run's folder, which keeps alerts, diagnostics and what the run does at the moment
    whatever the config says.

    `note` takes what trackers say.
    """
    sinks: list[Sink] = [TrackerSink(name, info, note) if is_tracker(name) else SINKS.get(name)(info) for name in names]
    return SinkGroup([*sinks, FolderSink(info), HeartbeatSink(info)] if info.folder else sinks, warn)
