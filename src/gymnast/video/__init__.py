"""Videos of agents: episodes with what the agent knows, thinks and does, as H.264 that a browser plays."""

from __future__ import annotations

from importlib.util import find_spec

from gymnast.core.errors import UserError, not_installed

PACKAGES = ("av", "PIL")


def require_packages(what: str) -> None:
    """They are optional; a missing one is reported before anything is built."""
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        raise UserError(f"{what}: {not_installed(*missing, extras=['video'])}")
