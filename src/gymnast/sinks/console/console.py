"""The run on the screen: a live table on a terminal, plain lines elsewhere, nothing when quiet.

Every number is the row's own, in the catalogue's precision; only the progress bar and the clock run on between rows.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import IO, TYPE_CHECKING

from gymnast.core.text import duration
from gymnast.metrics.catalogue import catalogue
from gymnast.metrics.rows import STEP, is_late, step_of
from gymnast.sinks.base import DISPLAYS, RunInfo, Sink

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from gymnast.alerts.alert import Alert

REFRESH_SECONDS = 0.25  # between two pictures on a terminal
REFRESH_SHARE = 0.02  # of the run's time that pictures may cost; on a slow terminal they become rarer
LINE_SECONDS = 2.0  # between two plain lines; a row with an evaluation is always printed
HEADER_EVERY = 40  # plain lines
HISTORY = 1000  # points kept of the curve; beyond it every second one is dropped
PLAIN_COLUMNS = {  # metric: heading, width
    "time/total_timesteps": ("steps", 11),
    "time/progress": ("done", 6),
    "rollout/ep_rew_mean": ("ep_rew_mean", 11),
    "rollout/ep_len_mean": ("ep_len", 8),
    "eval/mean_reward": ("eval", 10),
    "train/loss": ("loss", 10),
    "train/entropy": ("entropy", 8),
    "train/approx_kl": ("kl", 9),
    "train/explained_variance": ("expl_var", 8),
    "time/fps": ("fps", 9),
}


class ConsoleSink(Sink):
    closes = DISPLAYS

    def __init__(self, info: RunInfo, stream: IO[str] | None = None) -> None:
        self._title, self._total_steps, self._threshold = info.title, info.total_steps, info.threshold
        self._stream = stream if stream is not None else sys.stdout
        self._quiet = info.quiet
        self._live: Live | None = None
        # the last one; `_latest` also knows what earlier ones said, e.g. of an evaluation
        self._row: dict[str, float] = {}
        self._latest: dict[str, float] = {}
        self._previous: dict[str, float] = {}
        self._written_at: dict[str, int] = {}
        self._history: list[float] = []
        self._alerts: Sequence[Alert] = ()
        self._causes: dict[str, str] = {}  # named so far, by which rule
        self._stride, self._skipped = 1, 0
        self._start = (info.start_step, perf_counter())
        self._step, self._row_time = info.start_step, perf_counter()
        self._shown_at, self._unshown, self._lines = -math.inf, False, 0
        self._interval = REFRESH_SECONDS
        if not self._quiet and _is_rich_terminal(self._stream):
            self._live = self._open_live()

    def write(self, step: int, row: dict[str, float]) -> None:
        if self._quiet:
            return
        now = perf_counter()
        latest, previous, written_at = self._latest, self._previous, self._written_at
        dated = {STEP: step, **row}
        for name, value in row.items():
            if name in latest:
                previous[name] = latest[name]
            latest[name] = value
            written_at[name] = int(step_of(dated, name))
        if is_late(row):
            self._late(row, now)
            return
        self._row, self._step, self._row_time, self._unshown = row, step, now, True
        if "rollout/ep_rew_mean" in row:
            self._remember(row["rollout/ep_rew_mean"])
        if self._live is not None:
            self._refresh(now)
        elif now - self._shown_at >= LINE_SECONDS or "eval/mean_reward" in row:
            self._print_line(row, now)

    def alert(self, step: int, alert: Alert) -> None:
        """A new one: a line of its own where no table shows it; a cause is named once."""
        if self._live is None and not self._quiet:
            from gymnast.alerts.text import alert_line, evidence_of

            first = self._causes.setdefault(alert.cause, alert.rule)
            short = f"{alert.rule}: {alert.message} ({evidence_of(alert)}) Same cause as {first}."
            self._print(f"! {step:,}: {alert_line(alert) if first == alert.rule else short}")

    def alerts(self, step: int, alerts: Sequence[Alert]) -> None:
        self._alerts = alerts

    def _late(self, row: Mapping[str, float], now: float) -> None:
        """A report from the background on an earlier agent, and nothing else."""
        if self._live is not None:
            self._refresh(now)
            return
        for kind, score, said in (("eval", "mean_reward", "evaluated"), ("verdict", "mean", "judged")):
            if f"{kind}/step" in row:
                value, at = (catalogue().get(f"{kind}/{name}").text(row[f"{kind}/{name}"]) for name in (score, "step"))
                self._print(f"{said} the agent of step {at}: {value}")

    def tick(self, step: int) -> None:
        """Between rows: moves the bar and the clock, at most four times a second. Nearly free otherwise."""
        if self._live is not None:
            self._step = step
            self._refresh(perf_counter())

    def notice(self, text: str) -> None:
        """A message: above the table, or a line of its own."""
        if self._quiet:
            return
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text(f"› {text}", style="yellow"))
        else:
            self._print(text)

    def close(self) -> None:
        """Shows the last row, whatever the intervals say, and leaves the terminal as it was."""
        if self._live is not None:
            self._shown_at = -math.inf
            self._refresh(perf_counter())
            self._live.stop()
            self._live = None
        elif self._unshown and not self._quiet:
            self._print_line(self._row, perf_counter())
        self._quiet = True

    def render(self) -> RenderableType:
        """The picture of this moment, for a terminal of the live display's size."""
        from gymnast.sinks.console.panels import Dashboard

        now = perf_counter()
        return Dashboard(
            row=self._latest,
            title=self._title,
            total_steps=self._total_steps,
            previous=self._previous,
            threshold=self._threshold,
            step=self._step,
            elapsed=self._latest.get("time/elapsed", 0.0) + (now - self._row_time),
            remaining=self._remaining(now),
            history=self._history,
            written_at=self._written_at,
            alerts=self._alerts,
            lines=self._live.console.height - 1 if self._live is not None else None,
        )

    def _open_live(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        # No thread of its own: rich redraws when a row or a tick arrives, and training shares its core with nobody.
        live = Live(self.render(), console=Console(file=self._stream), auto_refresh=False, vertical_overflow="crop")
        live.start()
        return live

    def _refresh(self, now: float) -> None:
        if self._live is not None and now - self._shown_at >= self._interval:
            self._shown_at, self._unshown = now, False
            self._live.update(self.render(), refresh=True)
            self._interval = min(max(REFRESH_SECONDS, (perf_counter() - now) / REFRESH_SHARE), LINE_SECONDS)

    def _remaining(self, now: float) -> float | None:
        """Seconds until the budget is used up, at this process's mean rate."""
        first_step, first_time = self._start
        if self._step <= first_step:
            return None
        return max(self._total_steps - self._step, 0) * (now - first_time) / (self._step - first_step)

    def _remember(self, value: float) -> None:
        """Keeps a curve of the whole run in bounded space."""
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self._history.append(value)
        if len(self._history) >= HISTORY:
            self._history = self._history[::2]
            self._stride *= 2

    def _print_line(self, row: Mapping[str, float], now: float) -> None:
        if self._lines % HEADER_EVERY == 0:
            if self._lines == 0:
                self._print(self._title)
            self._print(" ".join(f"{head:>{width}}" for head, width in PLAIN_COLUMNS.values()) + f" {'left':>8}")
        cells = [
            f"{catalogue().get(name).text(row[name]) if name in row else '-':>{width}}"
            for name, (_, width) in PLAIN_COLUMNS.items()
        ]
        remaining = self._remaining(now)
        self._print(" ".join(cells) + f" {'-' if remaining is None else duration(remaining):>8}")
        self._shown_at, self._unshown, self._lines = now, False, self._lines + 1

    def _print(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()


def _is_rich_terminal(stream: IO[str]) -> bool:
    """A terminal that can move its cursor and draw boxes."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown") and encoding.startswith("utf")
