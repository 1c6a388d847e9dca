"""Videos of agents: episodes with what the agent knows, thinks and does, as H.264 that a browser plays."""

from __future__ import annotations

from importlib.util import find_spec

from gymnast.core.errors import UserError, install_command

PACKAGES = ("av", "PIL")


def require_packages(what: str) -> None:
    """They are optional; a missing one is reported before anything is built."""
    if any(find_spec(package) is None for package in PACKAGES):
        raise UserError(f"{what} needs a package that is not installed. Run: {install_command('video')}")
