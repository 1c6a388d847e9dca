"""`gymnast doctor`: what is installed."""

from __future__ import annotations

from gymnast.cli.verbs import app, verb


@app.command(short_help="Show what is installed and what is missing.")
@verb("doctor:examine", "doctor:print_health")
def doctor() -> None:
    """Show what is installed, what is missing, and the command that installs it.

    \b
    gymnast doctor
    gymnast doctor --json
    """
