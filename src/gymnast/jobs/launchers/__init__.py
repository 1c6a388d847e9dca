"""Where jobs run. `--on WHERE` names a launcher of the registry, or the address of a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gymnast.core.errors import UserError
from gymnast.core.registry import LAUNCHERS

if TYPE_CHECKING:
    from gymnast.jobs.pool import Detaching, Launcher

WHERE = "local, ray, ray://HOST:PORT, HOST:PORT or modal"


def open_launcher(on: str | None = None) -> Launcher:
    """Of None or "local" this machine, of an address a Ray cluster. UserError where it cannot be used: open it before
    anything is started or written."""
    name, address = parse_where(on)
    kind: Any = LAUNCHERS.get(name)
    launcher: Launcher = kind() if address is None else kind(address)
    return launcher


def open_detaching(on: str) -> Detaching:
    """The same for jobs that go on without this process."""
    launcher = open_launcher(on)
    if not hasattr(launcher, "submit"):
        raise UserError(f"--on {on}: its jobs end with the command that starts them.")
    return cast("Detaching", launcher)


def is_local(on: str | None) -> bool:
    return parse_where(on)[0] == "local"


def parse_where(on: str | None) -> tuple[str, str | None]:
    """The launcher's name, and its address where `on` has one. UserError where it is neither."""
    on = "local" if on is None else on
    if ":" not in on and LAUNCHERS.problem(on) is None:
        return on, None
    host, _, port = on.removeprefix("ray://").rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"--on {on}: must be {WHERE}.")
    return "ray", on
