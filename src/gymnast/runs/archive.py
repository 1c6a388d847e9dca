"""A run as one zip file, and back. A zip may come from anybody: nothing is written outside the run's own folder."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gymnast.core.errors import UserError
from gymnast.core.files import TEMPORARY
from gymnast.runs.folder import Run

LARGEST = 20_000_000_000  # bytes that a zip may hold when unpacked: a small file can be made to fill any disk
MOST_FILES = 100_000


def zip_run(run: Run, out: str | Path, without: Sequence[str] = ()) -> Path:
    """Everything in the folder but temporary files, in a fixed order, under the run's id.

    `out`: a file or a folder. `without`: folders of the run's that stay out.
    """
    out = Path(out)
    if out.is_dir():
        out = out / f"{run.id}.zip"
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: there is no folder {out.parent}.")
    temporary = out.with_name(f".{out.name}{TEMPORARY}")
    skipped = {path.resolve() for path in (out, temporary, run.path / "lock", run.heartbeat_path)}
    files = [
        path
        for path in sorted(run.path.rglob("*"))
        if path.is_file() and path.suffix != TEMPORARY and path.relative_to(run.path).parts[0] not in without
    ]
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                if path.resolve() not in skipped:
                    archive.write(path, f"{run.id}/{path.relative_to(run.path).as_posix()}")
        os.replace(temporary, out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {out}: {error.strerror}.") from error
    return out


def import_run(path: Path, runs_dir: Path) -> Run:
    """The run that a zip holds, unpacked among the others. It appears whole or not at all."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = _checked(archive, path)
            target = runs_dir / name
            if target.exists():
                raise UserError(f"{path}: there is a run {name} in {runs_dir} already. Choose another --runs-dir.")
            runs_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".import-", dir=runs_dir) as stage:
                archive.extractall(stage)
                os.rename(Path(stage, name), target)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:  # encrypted, cut off, ...
        raise UserError(f"{path} cannot be read as a zip file: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be imported into {runs_dir}: {error.strerror or error}.") from error
    run = Run.open(target)
    if run.read().status == "running":  # when it was zipped; nobody trains this copy
        run.update(pid=0, host=socket.gethostname(), on=None)
    return run


def _checked(archive: zipfile.ZipFile, path: Path) -> str:
    """The name of the run's folder, which everything must be in."""
    files = archive.infolist()
    tops = {PurePosixPath(item.filename).parts[:1] for item in files}
    name = next(iter(tops))[0] if len(tops) == 1 and all(tops) else ""
    if f"{name}/run.json" not in archive.namelist():
        raise UserError(f"{path} is not a run that `gymnast runs zip` made: it holds no folder with a run.json.")
    for item in files:
        parts = item.filename.split("/")
        is_link = stat.S_ISLNK(item.external_attr >> 16)
        if name.startswith(".") or ".." in parts or "\\" in item.filename or ":" in item.filename or is_link:
            raise UserError(f"{path} is refused: {item.filename!r} would be written outside the run's folder.")
    if sum(item.file_size for item in files) > LARGEST or len(files) > MOST_FILES:
        raise UserError(f"{path} is refused: unpacked it has more than {LARGEST / 1e9:g} GB or {MOST_FILES:,} files.")
    return name
