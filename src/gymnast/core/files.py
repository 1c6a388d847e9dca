"""Files that are either old or new, never half: every artifact of a run is written through here."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

TEMPORARY = ".tmp"  # how a file that is not finished yet ends; leftovers of a killed process may be deleted at any time


def write_atomic(path: Path, data: bytes) -> None:
    """Replaces `path` in one step. After kill -9 or a full disk the old content is still there, whole.

    One writer per path at a time (a run's lock sees to that), so the temporary name needs no random part and a
    leftover is overwritten by the next write.
    """
    temporary = path.with_name(f".{path.name}{TEMPORARY}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk must not stay full because of us
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes a rename in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def number_to_json(value: float) -> int | float | str:
    """JSON knows no NaN and no infinity: they are the strings "NaN", "Infinity", "-Infinity". 5.0 is written as 5."""
    value = float(value)
    if math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def number_from_json(value: int | float | str) -> float:
    return float(value)


def numbers_to_json(values: Any) -> Any:
    """Any nest of dicts and lists with its floats made fit for JSON."""
    if isinstance(values, float):
        return number_to_json(values)
    if isinstance(values, dict):
        return {key: numbers_to_json(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [numbers_to_json(value) for value in values]
    return values


def write_json(path: Path, data: dict[str, Any]) -> None:
    text = json.dumps(numbers_to_json(data), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomic(path, (text + "\n").encode())
