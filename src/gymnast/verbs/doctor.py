"""`gymnast doctor`: what is installed, what is missing and the one command that adds it, and what stands in the way."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from gymnast.core.errors import DISTRIBUTION
from gymnast.core.machine import cores
from gymnast.runs.references import list_runs
from gymnast.verbs.extras import all_extras, version_of
from gymnast.verbs.result import Facts

CORE = ("gymnast", "torch", "gymnasium", "numpy", "pydantic", "rich", "click", "ruamel.yaml", "safetensors")
OLDEST_PYTHON = (3, 11)
LITTLE_DISK = 1_000_000_000  # bytes; a run with checkpoints of a small network takes a few million


def examine(runs_dir: Path) -> Facts:
    """Of packages, devices and extras, None is what is not here."""
    runs = list_runs(runs_dir)
    nearest = next(folder for folder in (runs_dir.absolute(), *runs_dir.absolute().parents) if folder.exists())
    known = ("installed", "version", "brings", "command")
    data: dict[str, Any] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "os": platform.platform(),
        "cores": cores(),
        "packages": {name: version_of(name) for name in CORE},
        "devices": _devices(),
        "extras": {name: {what: getattr(extra, what) for what in known} for name, extra in all_extras().items()},
        "runs_dir": {
            "path": str(runs_dir),
            "exists": runs_dir.is_dir(),
            "writable": nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK),
            "free_bytes": shutil.disk_usage(nearest).free,
            "runs": len(runs),
        },
    }
    return Facts(data | {"problems": [*_problems(data), *runs.warnings]})


def _problems(data: dict[str, Any]) -> list[str]:
    found, folder = [], data["runs_dir"]
    if sys.version_info < OLDEST_PYTHON:
        found.append(f"Python {data['python']} is too old: {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed")
    missing = [name for name, version in data["packages"].items() if version is None]
    if missing:
        found.append(f"missing: {', '.join(missing)}. Run: pip install --force-reinstall {DISTRIBUTION}")
    if not data["devices"]:
        found.append("torch cannot be imported. Run: pip install --force-reinstall torch")
    if not folder["writable"]:
        found.append(f"runs cannot be written to {folder['path']}. Choose another --runs-dir, or set GYMNAST_RUNS")
    if folder["free_bytes"] < LITTLE_DISK:
        found.append(f"only {folder['free_bytes'] / 1e6:,.0f} MB of disk are free where runs are kept")
    return found


def _devices() -> dict[str, str | None]:
    """Where a network can live."""
    try:
        import torch
    except ImportError:
        return {}
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    mps = platform.processor() or "Apple" if torch.backends.mps.is_available() else None
    return {"cpu": platform.machine(), "cuda": cuda, "mps": mps}
