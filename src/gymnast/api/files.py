"""Files of saved models: how they are named, found, written and read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import torch

from gymnast.core.errors import UserError
from gymnast.runs import checkpoint
from gymnast.runs.checkpoint import Checkpoint
from gymnast.runs.references import CHECKPOINT_SUFFIX, default_runs_dir, resolve_checkpoint

ZIP = ".zip"
File = str | os.PathLike[str] | IO[bytes]


def with_suffix(path: str | os.PathLike[str]) -> Path:
    """m: m.zip, as in stable-baselines3. A name that ends in letters (m.safetensors, m.pkl) is kept, as scripts look
    for that very file."""
    path = Path(path)
    return path if path.suffix[1:].isalpha() else path.with_name(path.name + ZIP)


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


NEVER = ("env", "logger", "_logger", "rollout_buffer", "ep_info_buffer", "_vec_normalize_env", "_last_obs")


def excluded(model: str, exclude: Iterable[str] | None, include: Iterable[str] | None) -> set[str]:
    """What a file shall not have, by stable-baselines3's two arguments: `verbose`, or what a file never has."""
    left_out = set(exclude or ()) - set(include or ()) - set(NEVER)
    if wrong := sorted(left_out - {"verbose"}):
        raise UserError(f"{model}.save(exclude={wrong}): belongs to a model. Only verbose may be left out.")
    return left_out


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
    stem = path.with_suffix("") if path.suffix in (ZIP, CHECKPOINT_SUFFIX) else path
    for candidate in (path, *(stem.with_name(stem.name + suffix) for suffix in (ZIP, CHECKPOINT_SUFFIX))):
        if candidate.is_file():
            return candidate
    try:
        return resolve_checkpoint(str(ref), runs_dir or default_runs_dir())[1]
    except UserError as error:
        if str(ref).startswith("@"):  # never meant as a file
            raise
        raise UserError(f"there is no file {with_suffix(ref)}, and as a run's name: {error}") from None
