"""The live dashboard of a run for a terminal. Nothing here keeps state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import isfinite

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.panel import Panel
from rich.text import Text

from gymnast.alerts.alert import Alert
from gymnast.alerts.text import SHOWN, live_lines
from gymnast.core.text import blocks, duration
from gymnast.metrics.catalogue import Metric, catalogue

COLUMN = 34  # narrowest column that holds the longest label, a value and an arrow
IN_HEADER = ("time/total_timesteps", "time/progress", "time/elapsed", "time/fps", "time/share/")
# What comes after the first row, with the first episode, evaluation and verdict: its place is kept free.
AWAITED = {
    "rollout": ("ep_rew_mean", "ep_rew_std", "ep_rew_min", "ep_rew_max", "ep_rew_best", "ep_len_mean"),
    "eval": ("mean_reward", "std_reward", "best_mean_reward", "mean_ep_length"),
    "verdict": ("mean", "low", "high", "threshold"),
}
EXPECTED = 75  # lines of metrics and headings in all columns, before it is known how many there will be
CHART = 16  # lines of the return's curve at the most
PHASE_COLOURS = {
    "env": "green",
    "send": "bright_green",
    "receive": "bright_cyan",
    "wait": "bright_blue",
    "act": "cyan",
    "copy": "blue",
    "returns": "yellow",
    "update": "magenta",
    "log": "bright_black",
    "eval": "bright_yellow",
    "diagnostics": "bright_magenta",
}


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A row as the live display shows it. `step` and `elapsed` may be later than the row."""

    row: Mapping[str, float]
    title: str
    total_steps: int
    step: int
    elapsed: float
    previous: Mapping[str, float] = field(default_factory=dict)  # gives the arrows
    threshold: float | None = None  # that counts as solved
    remaining: float | None = None  # seconds
    history: Sequence[float] = ()  # returns so far: the curve
    written_at: Mapping[str, int] = field(default_factory=dict)  # the step each value is from
    lines: int | None = None  # how high it is: what does not fit is left out, details first; None: as it comes
    alerts: Sequence[Alert] = ()
    rate: float | None = None  # env steps a second of training; None: the row's
    doing: str = ""  # "collecting 312 / 2,048"
    stopping: str = ""  # what Ctrl-C has brought about

    @property
    def done(self) -> float:
        return min(self.step / self.total_steps, 1.0) if self.total_steps else 1.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - 4, 20)  # the border and one space on each side
        room = None
        alerts = live_lines(self.alerts, width)
        if self.lines is not None:  # every part has its lines, whether there is something to show or not
            kept = 1 if self.lines < 20 else 2 if self.lines < 30 else SHOWN + 1
            alerts = live_lines(self.alerts, width, kept)
            alerts += [Text()] * (kept - len(alerts))
            room = max(self.lines - kept - 6, 3)  # the border, progress, clock, curve and shares of time
        gap = [Text()] if room is None or room > 4 else []
        columns = max((width + 3) // (COLUMN + 3), 1)
        chart = 1 if room is None else min(max(room - len(gap) - EXPECTED // columns, 1), CHART)
        room = None if room is None else room - len(gap) - chart + 1
        table, hidden = self._table(width, columns, room)
        rest = [Text()] * (0 if room is None else room - len(table))
        head = [self._progress(width), self._clock(width), *self._curve(width, chart), self._shares(width), *alerts]
        subtitle = f"[dim]{hidden} more in metrics.jsonl[/]" if hidden else None
        yield Panel(
            Group(*head, *gap, *table, *rest),
            title=Text(self.title, style="bold"),
            title_align="left",
            subtitle=subtitle,
            subtitle_align="right",
            border_style="cyan",
            box=box.ROUNDED,
            width=options.max_width,
        )

    def _progress(self, width: int) -> Text:
        label = f" {100 * self.done:5.1f}%  {self.step:,} / {self.total_steps:,}" + (" steps" if width > 50 else "")
        return progress_line(self.done, max(width - len(label), 8), "cyan").append(label, style="bold")

    def _clock(self, width: int) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        if self.stopping:
            text.append(self.stopping, style="bold yellow").append("   ")
        text.append(duration(self.elapsed), style="bold blue").append(" elapsed", style="blue")
        if self.remaining is not None and not self.stopping:
            text.append("   ").append(duration(self.remaining), style="bold").append(" left", style="dim")
        rate = self.row.get("time/fps") if self.rate is None else self.rate
        if rate is not None and not self.stopping:
            fps = catalogue().get("time/fps").text(rate) if rate >= 10 else f"{rate:.1f}"
            text.append("   ").append(fps, style="bold green").append(" steps/s", style="dim")
        return text.append("   " + self.doing if self.doing else "")

    def _curve(self, width: int, height: int) -> list[Text]:
        """The training return so far, its last value, and the threshold; its ends where it is high enough."""
        value, metric = self.row.get("rollout/ep_rew_mean"), catalogue().get("rollout/ep_rew_mean")
        tails = [Text() for _ in range(height)]
        tails[0].append("  -" if value is None else "  " + metric.text(value), style="bold cyan")
        if self.threshold is not None:
            tails[0].append(f"  solved at {self.threshold:g}", style="dim")
        if known := [point for point in self.history if isfinite(point)]:
            for line, end, name in ((1, max(known), "highest"), (height - 1, min(known), "lowest")):
                if line < height and height > 2:
                    tails[line].append(f"  {metric.text(end)} {name}", style="dim")
        room = max(width - 8 - max(tail.cell_len for tail in tails), 4)
        names = ["return  ", *["        "] * (height - 1)]
        return [
            Text(no_wrap=True, overflow="ellipsis")
            .append(name, style="dim")
            .append(line.ljust(room), style="cyan")
            .append(tail)
            for name, line, tail in zip(names, blocks(self.history, room, height), tails, strict=True)
        ]

    def _shares(self, width: int) -> Text:
        shares = {name[len("time/share/") :]: v for name, v in self.row.items() if name.startswith("time/share/")}
        shown = {phase: share for phase, share in shares.items() if share >= 0.005}
        text = Text(no_wrap=True, overflow="ellipsis").append("time    " + ("" if shown else "-"), style="dim")
        room = max(width // 4, 10)
        edges, total = [0], 0.0
        for share in shown.values():
            total += share
            edges.append(round(room * min(total, 1.0)))
        for phase, left, right in zip(shown, edges[:-1], edges[1:], strict=True):
            text.append("█" * (right - left), style=PHASE_COLOURS.get(phase, "white"))
        for phase, share in sorted(shown.items(), key=lambda pair: -pair[1]):
            part = f"  ■ {phase} {catalogue().get('time/share/' + phase).text(share)}"
            if text.cell_len + len(part) > width:
                break
            text.append(part[:4], style=PHASE_COLOURS.get(phase, "white")).append(part[4:], style="default")
        return text

    def _metrics(self) -> list[Metric]:
        """In catalogue order, those that are awaited among them."""
        names = dict.fromkeys(name for name in self.row if not name.startswith(IN_HEADER))
        if names.get("time/frames", 0) is None and self.row["time/frames"] <= self.row.get("time/total_timesteps", 0):
            del names["time/frames"]  # without frame skip it says nothing that the steps do not
        if self.lines is not None:
            names |= dict.fromkeys(f"{group}/{name}" for group, some in AWAITED.items() for name in some)
        return [catalogue().get(name) for name in catalogue().sort(dict.fromkeys(names, 0.0))]

    def _table(self, width: int, columns: int, room: int | None) -> tuple[list[Text], int]:
        """Metrics set like a newspaper, line by line; how many of them did not fit."""
        metrics, alarming = self._metrics(), self._alarming()
        by_worth = sorted(
            metrics,
            key=lambda one: (one.name not in alarming, not one.emphasis, one.detail, one.order, one.name),
        )

        def too_high(count: int) -> bool:
            return room is not None and max(map(len, _columns(metrics, by_worth[:count], columns))) > room

        shown = bisect_right(range(1, len(metrics) + 1), False, key=too_high)
        each = (width - 3 * (columns - 1)) // columns
        gap = " " * ((width - columns * each) // max(columns - 1, 1))
        blank = Text(" " * each)
        table = _columns(metrics, by_worth[:shown], columns)
        lines = zip_longest(*([self._line(item, each) for item in column] for column in table), fillvalue=blank)
        return [Text(gap).join(line) for line in lines], len(metrics) - shown

    def _line(self, item: Metric | str, width: int) -> Text:
        if isinstance(item, str):
            return self._heading(item, width)
        value = self.row.get(item.name)
        if item.name in ("solved", "on_target") and not self.row.keys() & {"eval/mean_reward", "verdict/mean"}:
            value = None  # nobody has asked yet
        shown, label = "-" if value is None else item.text(value), item.label
        room = width - len(shown) - 3
        label = label if len(label) <= room else "…" + label[-max(room - 1, 1) :]  # layers differ at the end
        bad, alarming = value is not None and item.out_of_bounds(value), item.name in self._alarming()
        style = "bold red" if bad else "bold yellow" if alarming else "bold cyan" if item.emphasis else "default"
        text = Text().append(label, style="bold" if item.emphasis else "dim")
        text.append(" " * max(width - len(label) - len(shown) - 2, 1)).append(shown, style=style)
        return text.append(" ").append(*self._arrow(item, value))

    def _alarming(self) -> set[str]:
        """Metrics that an alert points at now: shown whatever the room."""
        return {name for alert in self.alerts if alert.firing for name in alert.evidence}

    def _heading(self, group: str, width: int) -> Text:
        name = group.removesuffix("+")
        title = f"{name} (more)" if group.endswith("+") else name
        written = self.written_at.get({"eval": "eval/mean_reward", "verdict": "verdict/mean"}.get(name, ""))
        if written is not None and written != self.step:
            title = f"{title} at {written:,}"  # not renewed by every row
        line = "─" * max(width - len(title) - 3, 0) + "  "
        return Text().append(title + " ", style="yellow").append(line, style="bright_black")

    def _arrow(self, metric: Metric, value: float | None) -> tuple[str, str]:
        before = self.previous.get(metric.name)
        counts_up = metric.style == "count" and metric.better is None
        if before is None or value is None or counts_up:
            return " ", "default"
        if metric.text(before) == metric.text(value) or not isfinite(value - before):
            return " ", "default"
        rising = value > before
        style = "bright_black" if metric.better is None else "green" if rising == (metric.better == "up") else "red"
        return ("▴" if rising else "▾"), style


def _columns(order: Sequence[Metric], chosen: Sequence[Metric], count: int) -> list[list[Metric | str]]:
    """The chosen metrics under the headings of their groups, in at most `count` columns, as low as possible."""
    names = {metric.name for metric in chosen}
    metrics = [metric for metric in order if metric.name in names]
    height = max(-(-len(metrics) // count), 2)
    while True:
        columns: list[list[Metric | str]] = [[]]
        group = ""
        for metric in metrics:
            needed = 1 if metric.group == group else 2  # no heading may stand alone at the foot of a column
            if len(columns[-1]) + needed > height:
                columns.append([metric.group + ("+" if metric.group == group else "")])
            elif metric.group != group:
                columns[-1].append(metric.group)
            columns[-1].append(metric)
            group = metric.group
        if len(columns) <= count:
            return columns
        height += 1


def progress_line(share: float, width: int, colour: str) -> Text:
    halves = round(2 * width * min(max(share, 0.0), 1.0))
    full, half = divmod(halves, 2)
    text = Text(no_wrap=True, overflow="ellipsis").append("━" * full + "╸" * half, style=colour)
    return text.append("─" * (width - full - half), style="bright_black")
