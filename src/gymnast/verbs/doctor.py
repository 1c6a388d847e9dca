"""`gymnast doctor`: what is installed, what is missing and the one command that adds it, and what stands in the way."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.text import Text

from gymnast.runs.references import list_runs
from gymnast.terminal.format import Cell, Column, facts_grid, heading, output, table
from gymnast.verbs.extras import all_extras, version_of

CORE = ("gymnast", "torch", "gymnasium", "numpy", "pydantic", "rich", "click", "ruamel.yaml", "safetensors")
OLDEST_PYTHON = (3, 11)
LITTLE_DISK = 1_000_000_000  # bytes; a run with checkpoints of a small network takes a few million


def examine(runs_dir: Path, as_json: bool = False) -> dict[str, Any]:
    runs = list_runs(runs_dir)
    nearest = next(folder for folder in (runs_dir.absolute(), *runs_dir.absolute().parents) if folder.exists())
    data: dict[str, Any] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "os": platform.platform(),
        "cores": _cores(),
        "packages": {name: version_of(name) for name in CORE},
        "devices": _devices(),
        "extras": {
            extra.name: {
                "installed": extra.installed,
                "version": extra.version,
                "brings": extra.brings,
                "command": None if extra.installed else extra.command,
            }
            for extra in all_extras().values()
        },
        "runs_dir": {
            "path": str(runs_dir),
            "exists": runs_dir.is_dir(),
            "writable": nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK),
            "free_bytes": shutil.disk_usage(nearest).free,
            "runs": len(runs),
        },
    }
    data["problems"] = [*_problems(data), *runs.warnings]
    if not as_json:
        _print(data)
    return data


def _cores() -> int:
    """Those this process may use, which a container or a scheduler can make fewer than there are."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _devices() -> dict[str, str | None]:
    """Where a network can live, by name; None where it cannot."""
    try:
        import torch
    except ImportError:
        return {}
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    mps = platform.processor() or "Apple" if torch.backends.mps.is_available() else None
    return {"cpu": platform.machine(), "cuda": cuda, "mps": mps}


def _problems(data: dict[str, Any]) -> list[str]:
    found = []
    if sys.version_info < OLDEST_PYTHON:
        found.append(f"Python {data['python']} is too old: {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed")
    missing = [name for name, version in data["packages"].items() if version is None]
    if missing:
        found.append(f"missing: {', '.join(missing)}. Run: pip install --force-reinstall gymnast")
    if not data["devices"]:
        found.append("torch cannot be imported. Run: pip install --force-reinstall torch")
    folder = data["runs_dir"]
    if not folder["writable"]:
        found.append(f"runs cannot be written to {folder['path']}. Choose another --runs-dir, or set GYMNAST_RUNS")
    if folder["free_bytes"] < LITTLE_DISK:
        found.append(f"only {_size(folder['free_bytes'])} of disk are free where runs are kept")
    return found


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"


def _print(data: dict[str, Any]) -> None:
    console = output()
    packages = ", ".join(f"{name} {version}" for name, version in data["packages"].items() if version)
    devices = ", ".join(f"{name} ({said})" for name, said in data["devices"].items() if said)
    folder = data["runs_dir"]
    state = (
        f"{folder['runs']} {'run' if folder['runs'] == 1 else 'runs'}" if folder["exists"] else "made by the first run"
    )
    console.print(
        facts_grid(
            [
                ("python", f"{data['python']}, {data['executable']}"),
                ("system", f"{data['os']}, {data['cores']} cores"),
                ("packages", packages),
                ("devices", devices),
                ("runs", f"{folder['path']}: {state}, {_size(folder['free_bytes'])} free"),
            ]
        )
    )
    console.print()
    rows: list[list[Cell]] = []
    for name, extra in data["extras"].items():
        there = Text(extra["version"] or "yes", style="green") if extra["installed"] else Text("-", style="dim")
        rows.append([name, there, extra["brings"], extra["command"] or ""])
    columns = [
        Column("extra", style="bold"),
        Column("installed"),
        Column("brings", style="dim", drop=1),
        Column("add it with", style="cyan"),
    ]
    console.print(table(console, columns, rows))
    console.print()
    if not data["problems"]:
        console.print("no problems", style="green")
        return
    console.print(heading("problems"))
    for problem in data["problems"]:
        console.print(Text(f"! {problem}", style="bold red"))
