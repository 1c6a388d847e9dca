"""Alerts for a terminal: a line each while the run goes, and with cause and command at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gymnast.alerts.alert import Alert, Evidence
from gymnast.core.text import setting, words_of
from gymnast.metrics.catalogue import catalogue

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

SHOWN = 3  # at a time; the others are counted
COLOURS = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}


def evidence_text(name: str, found: Evidence) -> str:
    """approx_kl 2.31 > 0.2"""
    metric, label = catalogue().get(name), name.partition("/")[2]
    text = f"{label} {metric.text(found.value)}"
    for bound, sign in ((found.high, ">"), (found.low, "<")):
        if bound is None or not (found.value > bound if sign == ">" else found.value < bound):
            continue
        if metric.text(bound) != metric.text(found.value):
            return f"{text} {sign} {metric.text(bound)}"
        if found.value == 0:
            return f"{label} none"
        return f"{label} {found.value:.2g} {sign} {bound:.2g}"  # too close for a table's digits
    return text


def patch_text(alert: Alert) -> str:
    return " ".join(f"{key}={setting(value)}" for key, value in (alert.patch or {}).items())


def kept_text(alert: Alert, others: Sequence[Alert]) -> str:
    """That the command of an alert keeps a setting which another alert blames, and which was typed; else nothing."""
    kept = {word.partition("=")[0]: word for word in words_of(alert.command or "") if "=" in word}
    blamed = [(other.rule, key) for other in others for key in other.patch or {} if key not in (alert.patch or {})]
    found = {key: f"{kept[key]}, which {rule} blames" for rule, key in reversed(blamed) if key in kept}
    return f"; it keeps {' and '.join(found.values())}" if found else ""


def evidence_of(alert: Alert) -> str:
    return ", ".join(evidence_text(name, found) for name, found in alert.evidence.items())


def when(alert: Alert) -> str:
    """3 rows, from 8,192 steps to the end"""
    until = "the end" if alert.firing else f"{alert.last:,}"
    return f"{alert.count} row{'s' * (alert.count != 1)}, from {alert.since:,} steps to {until}"


def alert_line(alert: Alert) -> str:
    """All of it in a line, for logs and plain terminals."""
    advice = f" Try {patch_text(alert)}." if alert.patch else ""
    return f"{alert.rule}: {alert.message} ({evidence_of(alert)}) {alert.cause}{advice}"


def live_lines(alerts: Sequence[Alert], width: int, room: int = SHOWN + 1) -> list[Text]:
    """Those that fire now, most urgent first, with how often they did and what to try, in at most `room` lines; the
    last one counts what has no room. Where a line is short its evidence is cut, not the advice."""
    from rich.text import Text

    firing = [alert for alert in alerts if alert.firing]
    lines = []
    for alert in firing[: room if len(alerts) <= room else max(room - 1, 1)]:
        line = Text(no_wrap=True, overflow="ellipsis").append(f"▲ {alert.rule}", style=COLOURS[alert.severity])
        line.append(f" x{alert.count}", style="dim")
        advice = Text()
        if alert.patch:
            advice.append("  try ", style="dim").append(patch_text(alert), style="cyan")
        evidence = Text("  " + evidence_of(alert))
        evidence.truncate(max(width - line.cell_len - advice.cell_len, 0), overflow="ellipsis")
        line.append(evidence).append(advice).truncate(width, overflow="ellipsis")
        lines.append(line)
    others = len(alerts) - len(lines)
    if others and len(lines) < room:
        lines.append(Text(f"  and {others} more alert{'s' * (others > 1)} in alerts.json", style="dim"))
    return lines


def report(alerts: Sequence[Alert]) -> list[RenderableType]:
    """At the end of a run: what was seen and since when; for each cause, the command that tries something else."""
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text("alerts", style="yellow")]
    causes: dict[str, list[Alert]] = {}
    for alert in alerts:
        causes.setdefault(alert.cause, []).append(alert)
    for cause, group in list(causes.items())[:SHOWN]:
        for alert in group[:SHOWN]:
            parts.append(Text().append(alert.rule, style=COLOURS[alert.severity]).append(f"  {alert.message}"))
            parts.append(Text(f"  {evidence_of(alert)}; {when(alert)}", style="dim"))
        facts = Table.grid(padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True, min_width=7)
        facts.add_column(overflow="fold")
        if len(group) > SHOWN:
            facts.add_row("  also", ", ".join(f"{alert.rule} x{alert.count}" for alert in group[SHOWN:]))
        facts.add_row("  cause", cause)
        if group[0].patch:
            facts.add_row("  try", Text(group[0].command or patch_text(group[0]), style="bold cyan"))
            if kept := kept_text(group[0], alerts):
                facts.add_row("", kept.removeprefix("; "))
        parts.append(facts)
    if others := [alert.rule for group in list(causes.values())[SHOWN:] for alert in group]:
        parts.append(Text(f"also {', '.join(others)}, in alerts.json", style="dim"))
    return parts
