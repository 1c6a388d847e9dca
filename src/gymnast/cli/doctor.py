"""`gymnast doctor`: what is installed."""

from __future__ import annotations

from pathlib import Path

from gymnast.cli.verbs import app, common, show


@app.command(short_help="What is installed and what is missing.")
@common
def doctor(runs_dir: Path) -> None:
    """What is installed, what is missing, and the one command that adds it."""
    from gymnast.terminal.doctor import print_health
    from gymnast.verbs.doctor import examine

    show(examine(runs_dir), print_health)
