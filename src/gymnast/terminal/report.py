"""`gymnast report` for people."""

from __future__ import annotations

from gymnast.verbs.report import RunReport


def print_report(result: RunReport) -> None:
    print(f"wrote {result.path}" if result.asked else result.text)
