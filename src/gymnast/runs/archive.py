"""A run as one zip file, and back. A zip may come from anybody: nothing is written outside the run's own folder, only
files that a run has are taken, and what the run says of itself does not make it the user's own."""

from __future__ import annotations

import lzma
import os
import shutil
import socket
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gymnast.core.errors import UserError
from gymnast.core.files import TEMPORARY, open_regular, read_json, require_replaceable, write_json
from gymnast.core.text import cut, printable
from gymnast.core.trust import ABOUT
from gymnast.runs.folder import RUN_ID, Run, RunInfo, new_token, now, run_id

LARGEST = 20_000_000_000  # bytes that a zip may hold when unpacked: a small file can be made to fill any disk
MOST_FILES = 100_000
BLOCK = 1 << 20  # bytes that are unpacked at a time
KINDS = (".csv", ".html", ".json", ".jsonl", ".log", ".md", ".mp4", ".safetensors", ".txt", ".wandb", ".yaml")
EVENTS = "events.out.tfevents."  # how TensorBoard's files begin
DAMAGED = (  # what reading a zip raises where it is encrypted, cut off, changed, or lies about itself
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)


class Zipped(NamedTuple):
    path: Path
    skipped: list[str]  # links that leave the run's folder


class Imported(NamedTuple):
    run: Run
    named: str | None  # the folder in the zip, where it was no run's id
    skipped: list[str]  # files that no run has


def zip_run(run: Run, out: str | Path, without: Sequence[str] = ()) -> Zipped:
    """Everything in the folder but temporary files and links that leave it, in a fixed order, under the run's id.

    `out`: a file or a folder. `without`: folders of the run's that stay out.
    """
    out, top = Path(out), run.id.replace("\\", "_")
    if out.is_dir():
        out = out / f"{top}.zip"
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: there is no folder {out.parent}.")
    temporary = out.with_name(f".{out.name}{TEMPORARY}")
    here = run.path.resolve()
    own = {out.resolve(), temporary.resolve(), here / "lock", run.heartbeat_path.resolve()}
    skipped: list[str] = []
    try:
        require_replaceable(out)
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(run.path.rglob("*")):
                name, real = path.relative_to(run.path), path.resolve()
                if name.parts[0] in without or path.suffix == TEMPORARY or real in own:
                    continue
                if path.is_symlink() and not real.is_relative_to(here):
                    skipped.append(name.as_posix())
                elif path.is_file():
                    _add(archive, path, f"{top}/{name.as_posix()}")
        os.replace(temporary, out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {out}: {error.strerror or error}.") from error
    return Zipped(out, skipped)


def _add(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    """Under a name that every system can read."""
    safe = name if name.isprintable() else printable(name).replace("\\", "_")
    archive.write(path, safe)


def import_run(path: Path, runs_dir: Path) -> Imported:
    """The run that a zip holds, unpacked among the others. It appears whole or not at all."""
    try:
        with open_regular(path, follow=True) as file, zipfile.ZipFile(file) as archive:
            top = _checked(archive, path, runs_dir)
            _require_room(archive, path, runs_dir)
            runs_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".import-", dir=runs_dir) as stage:
                place = Path(stage, "run")
                skipped = _unpack(archive, path, top, place)
                name = _described(place, path, top, runs_dir)
                target = runs_dir / name
                if os.path.lexists(target):
                    raise UserError(f"{path}: there is a run {name} in {runs_dir} already. Choose another --runs-dir.")
                os.rename(place, target)
    except DAMAGED as error:
        reason = cut(printable(" ".join(str(error).split())), 200)
        raise UserError(f"{path} cannot be read as a zip file: {reason or type(error).__name__}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be imported into {runs_dir}: {error.strerror or error}.") from error
    return Imported(Run.open(target), None if name == top else top, skipped)


def _checked(archive: zipfile.ZipFile, path: Path, runs_dir: Path) -> str:
    """The name of the run's folder, which everything must be in."""
    files = archive.infolist()
    tops = {PurePosixPath(item.filename).parts[:1] for item in files}
    name = next(iter(tops))[0] if len(tops) == 1 and all(tops) else ""
    if f"{name}/{ABOUT}" not in archive.namelist():
        raise UserError(f"{path} is not a run that `gymnast runs zip` made: it holds no folder with a run.json.")
    for item in files:
        parts = item.filename.split("/")
        kind = stat.S_IFMT(item.external_attr >> 16)
        is_special = kind not in (0, stat.S_IFREG, stat.S_IFDIR)
        if name.startswith(".") or ".." in parts or "\\" in item.filename or ":" in item.filename or is_special:
            said = cut(repr(item.filename))
            raise UserError(f"{path} is refused: {said} would be written outside the run's folder.")
    if RUN_ID.fullmatch(name) and os.path.lexists(runs_dir / name):
        raise UserError(f"{path}: there is a run {name} in {runs_dir} already. Choose another --runs-dir.")
    return name


def _require_room(archive: zipfile.ZipFile, path: Path, runs_dir: Path) -> None:
    """By what the zip says of its files, before anything is written."""
    files = archive.infolist()
    size = sum(item.file_size for item in files)
    if size > LARGEST or len(files) > MOST_FILES:
        raise UserError(f"{path} is refused: unpacked it has more than {LARGEST / 1e9:g} GB or {MOST_FILES:,} files.")
    there = next(folder for folder in (runs_dir.absolute(), *runs_dir.absolute().parents) if folder.exists())
    if size > (free := shutil.disk_usage(there).free):
        raise UserError(
            f"{path} is refused: unpacked it has {size / 1e9:,.1f} GB, and {there} has room for {free / 1e9:,.1f} GB."
        )


def _unpack(archive: zipfile.ZipFile, path: Path, top: str, place: Path) -> list[str]:
    """Writes the files that a run has, and returns the names of the others. None may be larger than the zip says."""
    skipped = []
    place.mkdir()
    for item in archive.infolist():
        if item.is_dir():
            continue
        name = item.filename.removeprefix(f"{top}/")
        if not _is_of_a_run(name):
            skipped.append(printable(name))
            continue
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with archive.open(item) as packed, open(target, "xb") as file:
            while block := packed.read(BLOCK):
                written += len(block)
                if written > item.file_size:
                    raise zipfile.BadZipFile(f"{name} is larger than it says")
                file.write(block)
    return skipped


def _is_of_a_run(name: str) -> bool:
    """Files of numbers, text and pictures: no program, and no second run.json that could speak for the first."""
    file = PurePosixPath(name)
    if not name.isprintable() or any(part.startswith(".") for part in file.parts) or file.suffix == TEMPORARY:
        return False
    if file.name == ABOUT:
        return len(file.parts) == 1
    return file.suffix in KINDS or file.name.startswith(EVENTS)


def _described(place: Path, path: Path, top: str, runs_dir: Path) -> str:
    """Marks an unpacked run as imported, whatever it says, and returns the id that it gets here."""
    try:
        info = Run(place).read()
        data = read_json(place / ABOUT)
    except UserError as error:
        reason = str(error).replace(f"{place}{os.sep}", "")
        raise UserError(f"{path} is refused: {reason}") from None
    data |= {"imported": now(), "pid": 0, "on": None}
    if data.get("status") == "running":  # when it was zipped; nobody trains this copy
        data["host"] = socket.gethostname()
    name = _id_of(info, data, top, runs_dir)
    write_json(place / ABOUT, {**data, "id": name})
    return name


def _id_of(info: RunInfo, data: dict[str, object], top: str, runs_dir: Path) -> str:
    """The folder's name, if it is a run's id; else the one in run.json, else a new one."""
    for name in (top, str(data.get("id"))):
        if RUN_ID.fullmatch(name) and (name == top or not os.path.lexists(runs_dir / name)):
            return name
    return run_id(new_token(runs_dir), info.env, info.algo, info.seed)
