"""Whose code runs because a file names it. Envs and wrappers of a user are modules, and a run may come from anybody.

A run is the user's own if it was made on this machine: `made_on` in its run.json, and no mark of `gymnast runs import`.
The code that another run's files name is not imported, unless the user says --trust. Code that lies in a run's folder
is never imported.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.files import read_json
from gymnast.core.machine import cpu_model
from gymnast.core.text import cut, printable

ABOUT = "run.json"
MODULE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w./-]*")
_allowed: set[Path] = set()  # runs, and files in no run, whose code this process may import


class Untrusted(UserError):
    """A file from elsewhere names code. `named` is what it names, `where` the run or the file."""

    def __init__(self, where: str, origin: str, named: list[str]) -> None:
        self.where, self.origin, self.named = where, origin, named
        said = f"{', '.join(map(repr, named[:3]))}{' ...' if len(named) > 3 else ''}"
        super().__init__(
            f"{where} needs code that is no part of Gymnast, {said}, and {origin}. The code was not loaded. If you "
            "trust it, repeat the command with --trust (in Python: trust=True)."
        )


def made_on() -> str:
    """This machine, as a run's folder remembers where it was made."""
    return f"{socket.gethostname()}, {cpu_model()}"


def is_own(about: Mapping[str, Any]) -> bool:
    """Whether a run.json, or what a saved model says of itself, is of this machine. A run that was made before
    `made_on` was written has its host."""
    if about.get("imported"):
        return False
    return (about.get("made_on") or about.get("host")) in (made_on(), socket.gethostname())


def run_above(path: str | Path) -> Path | None:
    """The nearest folder of a run that a file lies in, as it is named or where its links lead to."""
    for place in (Path(os.path.abspath(path)), Path(os.path.realpath(path))):
        for folder in place.parents:
            if os.path.lexists(folder / ABOUT):
                return folder
    return None


def allow(path: str | Path) -> None:
    """From now on this process imports what the files of a run name; of a file in no run, what it names."""
    _allowed.add(_owner(path))


def require_trust(path: str | Path, config: Any, about: Mapping[str, Any] | None = None) -> None:
    """Untrusted if a config names code and its file is not the user's own. Called before a config is checked: checking
    one imports its wrappers. `about`: what a file in no run says of itself; None: such a file is the user's own."""
    owner = _owner(path)
    run = run_above(path)
    if owner in _allowed or (run is None and about is None) or not (named := code_in(config)):
        return
    origin = _origin(_about(run) if run is not None else about or {})
    if origin is not None:
        where = f"run {printable(owner.name)}" if run is not None else printable(str(path))
        raise Untrusted(where, origin, named)


def origin_of(folder: Path) -> str | None:
    """Where a run's folder comes from, as the end of a sentence; None: it was made on this machine."""
    return _origin(_about(folder))


def _origin(about: Mapping[str, Any]) -> str | None:
    if is_own(about):
        return None
    if about.get("imported"):
        return "it was imported from a zip file"
    made = str(about.get("made_on") or about.get("host") or "")
    return f"it was made on {cut(printable(made))}" if made else "nobody knows where it was made"


def code_in(config: Any) -> list[str]:
    """What a config, as plain data, would have imported or connected to: modules of envs and wrappers, and a cluster's
    address, since a cluster sends code as well."""
    return list(dict.fromkeys(cut(printable(name)) for name in _code_in(config)))


def _code_in(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for inner in node:
            yield from _code_in(inner)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "wrappers":
            yield from _wrappers(value)
        elif key == "id" and isinstance(value, str) and (":" in value or value.endswith(".py")):
            yield value
        elif key == "kwargs":
            yield from _texts(value)
        elif key == "central" and isinstance(value, dict) and value.get("where") not in (None, "local", "ray"):
            yield str(value["where"])
        else:
            yield from _code_in(value)


def _wrappers(node: Any) -> Iterator[str]:
    """Names in env.wrappers, in each of the ways to write one: NAME, {NAME: {...}}, {name: NAME, kwargs: {...}}."""
    entries = node if isinstance(node, list) else [node]
    for entry in entries:
        names = [*entry, entry.get("name")] if isinstance(entry, dict) else [entry]
        yield from (name for name in names if isinstance(name, str) and ":" in name)


def _texts(node: Any) -> Iterator[str]:
    """Those that look like MODULE:NAME, at any depth of env.kwargs: some envs make another env by its id."""
    if isinstance(node, str) and MODULE.fullmatch(node):
        yield node
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for one in inner:
        yield from _texts(one)


def run_that_holds(module: str) -> Path | None:
    """The folder of a run, or of runs, that a module would be imported from; None: it lies elsewhere. Imports nothing,
    not even the packages above it."""
    top, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ValueError, ImportError):  # it is imported already, in a way of its own
        return None
    if spec is None:
        return None
    for place in spec.submodule_search_locations or []:
        folders = [Path(place, *parts[:length]) for length in range(len(parts) + 1)]
        if found := run_above(folders[-1] / "code") or next(filter(_holds_runs, folders), None):
            return found
    return run_above(spec.origin) if spec.origin and not spec.submodule_search_locations else None


def _holds_runs(folder: Path) -> bool:
    try:
        return any(os.path.lexists(inner / ABOUT) for inner in folder.iterdir())
    except OSError:  # no folder, or one that cannot be read
        return False


def _owner(path: str | Path) -> Path:
    return Path(os.path.realpath(run_above(path) or path))


def _about(run: Path) -> Mapping[str, Any]:
    """A run.json that cannot be read says nothing."""
    try:
        data = read_json(run / ABOUT)
    except UserError:
        return {}
    return data if isinstance(data, dict) else {}
