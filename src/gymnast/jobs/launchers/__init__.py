"""Where jobs run. `--on WHERE` names a launcher of the registry, or the address of a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymnast.core.errors import UserError
from gymnast.core.registry import LAUNCHERS

if TYPE_CHECKING:
    from gymnast.jobs.pool import Launcher

WHERE = "local, ray, ray://HOST:PORT, HOST:PORT or modal"


def open_launcher(on: str | None = None) -> Launcher:
    """Of None or "local" this machine, of an address a Ray cluster. UserError where it cannot be used; it is asked
    before anything is started."""
    on = on or "local"
    if ":" not in on:
        if LAUNCHERS.problem(on):
            raise UserError(f"--on {on}: must be {WHERE}.")
        launcher: Launcher = LAUNCHERS.get(on)()
        return launcher
    host, _, port = on.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"--on {on}: must be {WHERE}.")
    cluster: Launcher = LAUNCHERS.get("ray")(on)
    return cluster
