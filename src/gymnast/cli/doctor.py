"""`gymnast doctor`: what is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnast.cli.verbs import app, common


@app.command(short_help="What is installed and what is missing.")
@common
def doctor(runs_dir: Path, as_json: bool) -> Any:
    """What is installed, what is missing, and the one command that adds it."""
    from gymnast.verbs.doctor import examine

    return examine(runs_dir, as_json)
