"""What `gymnast speed --tune` found on this machine, kept between commands in the user's cache folder.

It answers two questions a config may leave open: `env.n_envs: auto`, and for `env.engine: auto` which engine is fastest
for that many envs. An answer holds for this processor and these versions; where there is none, nothing changes.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gymnast.core.files import write_json
from gymnast.core.machine import machine

AUTO = "auto"


@dataclass(frozen=True)
class Tuned:
    n_envs: int
    engine: str  # for that many
    engines: dict[int, str] = field(default_factory=dict)  # by n_envs, all that were measured
    steps_per_second: float = 0.0


def cache_path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gymnast" / "tune.json"


def find(env_id: str) -> Tuned | None:
    """What was found for this env here, or None."""
    path = cache_path()
    if not path.is_file():  # the usual case, and a cheap one
        return None
    found = _read(path).get(machine(), {}).get(env_id)
    try:
        return None if found is None else TypeAdapter(Tuned).validate_python(found)
    except ValidationError:  # written by another version, or by hand
        return None


def keep(env_id: str, tuned: Tuned) -> Path:
    path = cache_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    everything = _read(path)
    everything.setdefault(machine(), {})[env_id] = asdict(tuned)
    write_json(path, everything)
    return path


def _read(path: Path) -> dict[str, Any]:
    """A cache that cannot be read is an empty one."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def settle_n_envs(data: dict[str, Any], sources: dict[str, str], default: int) -> None:
    """Puts a number where a config says `env.n_envs: auto`, before anything is checked that depends on it."""
    env = data.get("env")
    if not isinstance(env, dict) or env.get("n_envs") != AUTO:
        return
    tuned = find(str(env.get("id")))
    env["n_envs"] = default if tuned is None else tuned.n_envs
    said = sources.get("env.n_envs", AUTO)
    why = "not tuned here yet: `gymnast speed --tune`" if tuned is None else "measured on this machine"
    sources["env.n_envs"] = f"{said}: auto, {why}"
