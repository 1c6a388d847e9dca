"""Files of saved models: how they are named, found, written and read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch

from gymnast.core.errors import UserError
from gymnast.runs import checkpoint
from gymnast.runs.checkpoint import Checkpoint
from gymnast.runs.references import CHECKPOINT_SUFFIX, default_runs_dir, resolve_checkpoint

File = str | os.PathLike[str] | IO[bytes]


def with_suffix(path: str | os.PathLike[str]) -> Path:
    """m: m.safetensors. A name that ends in letters (m.zip, m.pkl) is kept, as scripts look for that very file."""
    path = Path(path)
    return path if path.suffix[1:].isalpha() else path.with_name(path.name + CHECKPOINT_SUFFIX)


def write(
    path: File, tensors: Mapping[str, torch.Tensor], state: Mapping[str, Any], metrics: Mapping[str, float]
) -> None:
    if isinstance(path, str | os.PathLike):
        with_suffix(path).parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(with_suffix(path), tensors, state, metrics, readable=False)
        return
    if not hasattr(path, "write"):
        raise UserError(f"save: {path!r} is neither a path nor a file that is open for writing bytes.")
    path.write(checkpoint.to_bytes(tensors, state, metrics))


def read(ref: File, runs_dir: str | Path | None) -> Checkpoint:
    """A file, or a run's checkpoint by its reference; an open file is read from its beginning."""
    if isinstance(ref, str | os.PathLike):
        return checkpoint.load(find(ref, runs_dir))
    if not hasattr(ref, "read"):
        raise UserError(f"load: {ref!r} is neither a path nor a run's name nor a file that is open for reading bytes.")
    if ref.seekable():
        ref.seek(0)
    return checkpoint.load(str(getattr(ref, "name", "in an open file")), ref.read())


def find(ref: str | os.PathLike[str], runs_dir: str | Path | None) -> Path:
    """As it is called, or by the other name that it may have been saved under."""
    path = Path(ref)
    others = [path.with_suffix("")] if path.suffix == ".zip" else [path.with_name(f"{path.name}.zip")]
    for candidate in (path, with_suffix(path), *map(with_suffix, others)):
        if candidate.is_file():
            return candidate
    try:
        return resolve_checkpoint(str(ref), runs_dir or default_runs_dir())[1]
    except UserError as error:
        raise UserError(f"there is no file {with_suffix(ref)}, and as a run's name: {error}") from None
