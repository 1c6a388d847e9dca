"""Alerts for a terminal: a line each while the run goes, and with cause and command at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gymnast.metrics.advice import value_text
from gymnast.metrics.alerts import Alert, Evidence
from gymnast.metrics.catalogue import catalogue

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

SHOWN = 3  # at a time; the others are counted
COLOURS = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}


def evidence_text(name: str, found: Evidence) -> str:
    """approx_kl 2.31 > 0.2"""
    metric = catalogue().get(name)
    text = f"{name.partition('/')[2]} {metric.text(found.value)}"
    if found.high is not None and not found.value <= found.high:
        return f"{text} > {found.high:.4g}"
    return f"{text} < {found.low:.4g}" if found.low is not None and not found.value >= found.low else text


def patch_text(alert: Alert) -> str:
    return " ".join(f"{key}={value_text(value)}" for key, value in (alert.patch or {}).items())


def alert_line(alert: Alert) -> str:
    """All of it in a line, for logs and plain terminals."""
    evidence = ", ".join(evidence_text(name, found) for name, found in alert.evidence.items())
    advice = f" Try {patch_text(alert)}." if alert.patch else ""
    return f"{alert.rule}: {alert.message} ({evidence}) {alert.cause}{advice}"


def live_lines(alerts: Sequence[Alert], width: int, shown: int = SHOWN) -> list[Text]:
    """Those that fire now, most urgent first, with how often they did and what to try; a line counts the others."""
    from rich.text import Text

    firing = [alert for alert in alerts if alert.firing]
    lines = []
    for alert in firing[:shown]:
        line = Text(no_wrap=True, overflow="ellipsis").append(f"▲ {alert.rule}", style=COLOURS[alert.severity])
        line.append(f" x{alert.count}", style="dim")
        line.append("  " + ", ".join(evidence_text(name, found) for name, found in alert.evidence.items()))
        if alert.patch:
            line.append("  try ", style="dim").append(patch_text(alert), style="cyan")
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    others = len(alerts) - len(lines)
    if others and shown == SHOWN:
        lines.append(Text(f"  and {others} more alert{'s' * (others > 1)} in alerts.json", style="dim"))
    return lines


def report(alerts: Sequence[Alert]) -> list[RenderableType]:
    """The first few at the end of a run: what, since when, why, and the command that tries something else."""
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text("alerts", style="yellow")]
    for alert in alerts[:SHOWN]:
        head = Text().append(alert.rule, style=COLOURS[alert.severity]).append(f"  {alert.message}")
        facts = Table.grid(padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True, min_width=6)
        facts.add_column(overflow="fold")
        rows = f"{alert.count} row{'s' * (alert.count > 1)}"
        until = "to the end" if alert.firing else f"to {alert.last:,}"
        evidence = ", ".join(evidence_text(name, found) for name, found in alert.evidence.items())
        facts.add_row("  seen", f"{evidence}; {rows}, from {alert.since:,} steps {until}")
        facts.add_row("  cause", alert.cause)
        if alert.patch:
            facts.add_row("  try", Text(alert.command or patch_text(alert), style="bold cyan"))
        parts += [head, facts]
    if len(alerts) > SHOWN:
        others = ", ".join(f"{alert.rule} x{alert.count}" for alert in alerts[SHOWN:])
        parts.append(Text(f"also {others} (alerts.json)", style="dim"))
    return parts
