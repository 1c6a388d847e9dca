"""The run on the screen: a live table on a terminal, plain lines elsewhere, nothing when quiet.

Every number is the row's own, in the catalogue's precision; progress, clock and rate run on between rows.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import IO, TYPE_CHECKING

from gymnast.core.pulse import DONE, JUDGING, Activity, Pulse
from gymnast.core.text import duration
from gymnast.metrics.catalogue import catalogue
from gymnast.metrics.rows import STEP, is_late, step_of
from gymnast.sinks.base import DISPLAYS, RunInfo, Sink
from gymnast.sinks.console.screen import Screen, Ticker

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gymnast.alerts.alert import Alert

LINE_SECONDS = 2.0  # between two plain lines; a row with an evaluation is always printed
SILENT_SECONDS = 30.0  # without a plain line, after which one says what is going on
RATE_SECONDS = 5.0  # of training that the shown rate is the mean of, and at least from one row to the next
STOPPING = "stopping after this rollout{left}; again: at once"
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
        self._stages = info.stages
        self._stream = stream if stream is not None else sys.stdout
        self._quiet = info.quiet
        self._pulse = Pulse()
        self._lock = threading.RLock()  # rows come in one thread and are shown in another
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
        self._marks = [(info.start_step, 0.0)]  # env steps and seconds of training at some of the last rows
        self._shown_at, self._unshown, self._lines = perf_counter() - LINE_SECONDS, False, 0
        self._said_stopping = False
        self._screen: Screen | None = None
        self._ticker: Ticker | None = None
        if not self._quiet:
            if _is_rich_terminal(self._stream):
                self._screen = Screen(self._stream, self.render)
            self._ticker = Ticker(self._tick)

    def follow(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._start = (pulse.activity.step, perf_counter())
        self._marks = [(pulse.activity.step, 0.0)]

    def write(self, step: int, row: dict[str, float]) -> None:
        if self._quiet or self._ticker is None:
            return
        if (failure := self._ticker.failure) is not None:
            self.close()
            raise failure
        with self._lock:
            latest, previous, written_at = self._latest, self._previous, self._written_at
            dated = {STEP: step, **row}
            for name, value in row.items():
                if name in latest:
                    previous[name] = latest[name]
                latest[name] = value
                written_at[name] = int(step_of(dated, name))
            if is_late(row):
                self._late(row)
                return
            self._row, self._unshown = row, True
            if "rollout/ep_rew_mean" in row:
                self._remember(row["rollout/ep_rew_mean"])
            self._mark(step)
            now = perf_counter()
            if self._screen is None and (now - self._shown_at >= LINE_SECONDS or "eval/mean_reward" in row):
                self._print_line(row, now)

    def alert(self, step: int, alert: Alert) -> None:
        """A new one: a line of its own where no table shows it; a cause is named once."""
        if self._screen is None and not self._quiet:
            from gymnast.alerts.text import alert_line, evidence_of

            first = self._causes.setdefault(alert.cause, alert.rule)
            short = f"{alert.rule}: {alert.message} ({evidence_of(alert)}) Same cause as {first}."
            self._print(f"! {step:,}: {alert_line(alert) if first == alert.rule else short}")

    def alerts(self, step: int, alerts: Sequence[Alert]) -> None:
        self._alerts = alerts

    def notice(self, text: str) -> None:
        """A message: above the table, or a line of its own."""
        if self._quiet:
            return
        if self._screen is not None:
            self._screen.print(text)
        else:
            self._print(text)

    def close(self) -> None:
        """Shows the last row, whatever the intervals say, and leaves the terminal as it was."""
        try:
            if self._ticker is not None:
                self._ticker.close()
        finally:
            screen, self._screen, self._ticker = self._screen, None, None
            if screen is not None:
                screen.close()
        if screen is None and self._unshown and not self._quiet:
            self._print_line(self._row, perf_counter())
        self._quiet = True

    def render(self, lines: int | None = None) -> RenderableType:
        """The picture of this moment, that high."""
        from gymnast.sinks.console.panels import Dashboard

        pulse, now = self._pulse, perf_counter()
        activity, done = pulse.activity, pulse.done  # in this order: see Pulse.begin
        with self._lock:
            return Dashboard(
                row=dict(self._latest),
                title=f"{self._title}{self._stage()}",
                total_steps=self._total_steps,
                previous=dict(self._previous),
                threshold=self._threshold,
                step=max(step_now(activity, done), int(self._latest.get(STEP, 0))),
                elapsed=(activity.began if activity.name == DONE else now) - pulse.zero,
                remaining=self._remaining(activity, done, now),
                history=list(self._history),
                written_at=dict(self._written_at),
                alerts=list(self._alerts),
                lines=lines,
                rate=self._rate(activity, done, now),
                doing=doing(pulse, activity, done),
                stopping=self._stopping(activity),
            )

    def _stage(self) -> str:
        """stage 2 of 3: wind"""
        here = int(self._latest.get("time/stage", 1))
        return f" · stage {here} of {len(self._stages)}: {self._stages[here - 1]}" if self._stages else ""

    def _tick(self) -> None:
        """In the ticker's thread."""
        if self._screen is not None:
            self._screen.refresh()
            return
        activity, done, now = self._pulse.activity, self._pulse.done, perf_counter()
        with self._lock:
            if (stopping := self._stopping(activity)) and not self._said_stopping:
                self._said_stopping = True
                self._print(stopping)
            elif now - self._shown_at >= SILENT_SECONDS and activity.name != DONE:
                self._shown_at = now
                self._print(f"{duration(now - self._pulse.zero)} elapsed, {doing(self._pulse, activity, done)}")

    def _stopping(self, activity: Activity) -> str:
        if not self._pulse.stopping or activity.name == DONE:
            return ""
        if activity.name in JUDGING:
            return "stopping"
        done, now = self._pulse.done, perf_counter()
        waits = activity.name == "collecting" and done > 0
        seconds = (now - activity.began) * (activity.total / done - 1) if waits else 0.0
        return STOPPING.format(left=f", in about {duration(seconds)}" if seconds >= 1 else "")

    def _late(self, row: Mapping[str, float]) -> None:
        """A report from the background on an earlier agent, and nothing else."""
        for kind, score, said in (("eval", "mean_reward", "evaluated"), ("verdict", "mean", "judged")):
            if f"{kind}/step" in row and self._screen is None:
                value, at = (catalogue().get(f"{kind}/{name}").text(row[f"{kind}/{name}"]) for name in (score, "step"))
                self._print(f"{said} the agent of step {at}: {value}")

    def _mark(self, step: int) -> None:
        seconds = self._trained(self._pulse.activity, perf_counter())
        self._marks.append((step, seconds))
        while len(self._marks) > 2 and self._marks[1][1] <= seconds - RATE_SECONDS:
            del self._marks[0]

    def _trained(self, activity: Activity, now: float) -> float:
        """Seconds since the start that no evaluation or verdict has taken."""
        here = activity.began if activity.name in (*JUDGING, DONE) else now
        return here - self._start[1] - activity.judged

    def _rate(self, activity: Activity, done: int, now: float) -> float | None:
        step, seconds = self._marks[0]
        steps, took = step_now(activity, done) - step, self._trained(activity, now) - seconds
        return steps / took if steps > 0 and took > 0 else None

    def _remaining(self, activity: Activity, done: int, now: float) -> float | None:
        """Seconds until the budget is used up, at this process's mean rate."""
        limit = self._pulse.until - now
        first_step, first_time = self._start
        step = step_now(activity, done)
        if step > first_step:
            limit = min(limit, max(self._total_steps - step, 0) * (now - first_time) / (step - first_step))
        return None if math.isinf(limit) else max(limit, 0.0)

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
        remaining = self._remaining(self._pulse.activity, self._pulse.done, now)
        self._print(" ".join(cells) + f" {'-' if remaining is None else duration(remaining):>8}")
        for prefix, said in (("rollout/ep_rew_mean/", "training"), ("eval/mean_reward/", "evaluation")):
            if tasks := [name for name in row if name.startswith(prefix)]:  # a run with several, by task
                each = (f"{name[len(prefix) :]} {catalogue().get(name).text(row[name])}" for name in tasks)
                self._print(f"{said:>18}  {', '.join(each)}")
        self._shown_at, self._unshown, self._lines = now, False, self._lines + 1

    def _print(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        with self._lock:
            try:
                self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
                self._stream.flush()
            except BrokenPipeError:  # whoever read it has enough; the run goes on
                self._quiet = True


def step_now(activity: Activity, done: int) -> int:
    """Env steps of the run, those of the rollout under way among them."""
    return activity.step + (done * activity.each if activity.name == "collecting" else 0)


def doing(pulse: Pulse, activity: Activity, done: int) -> str:
    """collecting 312 / 2,048; evaluating wind 3 / 20, step 150, mean -20.1, about 1:10 left"""
    if activity.name == DONE:
        return ""
    if not activity.total:
        return activity.name
    if activity.name not in JUDGING:
        return f"{activity.name} {min(done, activity.total) * activity.each:,} / {activity.total * activity.each:,}"
    total = pulse.enough or activity.total
    name = " ".join(filter(None, (activity.name, activity.of)))
    count = f"{name} {min(done, total):,} / {total:,}, step {pulse.steps:,}"
    if (mean := pulse.mean) is None or not done:
        return count
    left = (perf_counter() - activity.began) * max(total - done, 0) / done
    return f"{count}, mean {mean:,.4g}, about {duration(left)} left"


def _is_rich_terminal(stream: IO[str]) -> bool:
    """A terminal that can move its cursor and draw boxes."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown") and encoding.startswith("utf")
