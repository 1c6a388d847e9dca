"""Runs: the names a user gives them, and what can be done with them from outside. `folder.py` is the folder itself.

One resolver serves every command: `@last` (the newest run), `@best` (the best score among the runs of the newest run's
env), `@best:ENV`, an id, a unique prefix of one, the name it was given, a path to a run folder or to a checkpoint file;
with `/best`, `/last`, `/step_20000` or `/stage_NAME` behind it to choose the checkpoint. Where an agent is all that is
needed, a file that `model.save` wrote will do as well. The runs of sweeps are in no list but that of their sweep; an id
or the beginning of one names them, too.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from gymnast.core.errors import UserError, did_you_mean
from gymnast.runs.folder import CHECKPOINT_SUFFIX, Run, RunInfo, RunList, create_run, default_runs_dir, list_runs

__all__ = [
    "CHECKPOINT_SUFFIX",
    "Run",
    "RunInfo",
    "RunList",
    "create_run",
    "default_runs_dir",
    "list_runs",
]  # from there

CHECKPOINT_NAME = re.compile(r"best|last|step_\d+|stage_[\w-]+")
SWEEPS = "sweeps"  # a folder in that of the runs: sweeps/NAME/runs/CELL/ID


def resolve(ref: str, runs_dir: str | Path) -> Run:
    """The run that `ref` names; a checkpoint's name behind it is allowed and ignored."""
    return _find(ref, Path(runs_dir))[0]


class SavedFile(Run):
    """A file that `model.save` wrote, in no run's folder: takes the place of a run. Its videos are next to it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file.parent)
        self.file = file
        self.videos_dir = file.parent

    @property
    def id(self) -> str:
        return self.file.name

    def checkpoints(self) -> list[Path]:
        return [self.file]


def resolve_checkpoint(ref: str, runs_dir: str | Path, prefer: str = "best") -> tuple[Run, Path]:
    """The run and the checkpoint file. Where `ref` names none: `prefer` ("best" or "last"), else the other one."""
    if (file := _file_of_its_own(Path(ref))) is not None:
        return SavedFile(file), file
    run, name = _find(ref, Path(runs_dir))
    there = {path.stem: path for path in run.checkpoints()}
    if not there:
        raise UserError(f"run {run.id} has no checkpoint yet.")
    if name is not None:
        if name not in there:
            raise UserError(f"run {run.id} has no checkpoint {name!r}. It has: {', '.join(there)}.")
        return run, there[name]
    fallback = "last" if prefer == "best" else "best"
    return run, there.get(prefer) or there.get(fallback) or list(there.values())[-1]


def delete_run(run: Run) -> None:
    """Removes the folder. Only ever a folder with a run.json, and not while it is trained."""
    if run.path.is_symlink() or not os.path.lexists(run.path / "run.json"):
        raise UserError(f"{run.path} is not a run's folder; nothing was deleted.")
    if run.live():
        raise UserError(f"run {run.id} is still being trained; stop it first. Nothing was deleted.")
    # gone from every listing at once, even if removal is cut short
    hidden = run.path.with_name(f".deleted-{run.path.name}")
    os.rename(run.path, hidden)
    shutil.rmtree(hidden)


def runs_of_sweep(name: str, runs_dir: Path) -> RunList:
    """The trainings of a sweep, newest first."""
    folders = {path.parent.name: path.parent for path in (runs_dir / SWEEPS).glob("*/sweep.json")}
    if name not in folders:
        newest = sorted(folders, key=lambda one: -folders[one].stat().st_mtime)[:3]
        there = f"There are: {', '.join(newest)}." if newest else f"There are none in {runs_dir / SWEEPS}."
        raise UserError(f"no sweep {name!r}.{did_you_mean(name, list(folders))} {there}")
    cells = [list_runs(cell) for cell in sorted((folders[name] / "runs").glob("[!.]*"))]
    runs = sorted((run for cell in cells for run in cell), key=lambda run: (run.created, run.id), reverse=True)
    damaged = [run for cell in cells for run in cell.damaged]
    return RunList(runs, damaged, [warning for cell in cells for warning in cell.warnings])


def in_sweeps(beginning: str, runs_dir: Path) -> list[Run]:
    """The runs of sweeps whose id begins so."""
    found = (runs_dir / SWEEPS).glob(f"*/runs/*/{glob.escape(beginning)}*/run.json")
    return [Run(path.parent) for path in found]


def runs_dir_option(folder: Path) -> str:
    """What a command needs to find the runs of a folder: nothing, where they are looked for anyway."""
    if folder.resolve() == default_runs_dir().resolve():
        return ""
    return f" --runs-dir {shlex.quote(str(folder))}"


def _find(ref: str, runs_dir: Path) -> tuple[Run, str | None]:
    base, name = _split(ref)
    path = Path(base)
    is_id = base.startswith("@") or ("/" not in base and os.path.exists(runs_dir / base / "run.json"))
    if not is_id and path.suffix == ".zip" and os.path.isfile(path):
        raise UserError(
            f"{base} is a zip file: unpack the run in it with `gymnast runs import {shlex.quote(base)}` first."
        )
    if not is_id and os.path.isfile(path) and path.suffix == CHECKPOINT_SUFFIX:
        return _run_above(path.parent, path), path.stem
    if not is_id and os.path.isdir(path) and (os.path.exists(path / "run.json") or "/" in base):
        return _run_above(path, path), name
    return Run.open(_pick(base, runs_dir).path), name


def _file_of_its_own(path: Path) -> Path | None:
    """A model that was saved from Python, wherever it lies."""
    if not path.is_file():
        return None
    above = path.resolve().parent
    return None if any((folder / "run.json").is_file() for folder in (above, above.parent)) else path


def _split(ref: str) -> tuple[str, str | None]:
    base, slash, tail = ref.rstrip("/").rpartition("/")
    if slash and CHECKPOINT_NAME.fullmatch(tail):
        return base, tail
    return ref.rstrip("/"), None


def _run_above(folder: Path, asked: Path) -> Run:
    """The run a folder is, or whose `checkpoints` it is."""
    for candidate in (folder, folder.resolve().parent):
        if os.path.exists(candidate / "run.json"):
            return Run.open(candidate)
    raise UserError(f"{asked} is not inside a run's folder: there is no run.json.")


def _pick(ref: str, runs_dir: Path) -> RunInfo:
    runs = list_runs(runs_dir)
    known = [*runs, *runs.damaged]  # one that is damaged can be named, to be deleted or to be told what is wrong
    named = [] if ref.startswith("@") else _named(ref, known) or _trained_by_sweeps(ref, runs_dir)
    if len(named) == 1:
        return named[0]
    if named:
        raise UserError(f"{ref!r} could be any of: {', '.join(run.id for run in named)}. Give more letters.")
    if not runs and (ref.startswith("@") or not known):
        broken = f" ({runs.warnings[0]})" if runs.warnings else ""
        raise UserError(f"no runs yet in {runs_dir}{broken}: start one with `gymnast train CartPole-v1`.")
    if ref == "@last":
        return runs[0]
    if ref == "@best" or ref.startswith("@best:"):
        return _best(runs, ref.partition(":")[2] or runs[0].env)
    if ref.startswith("@"):
        raise UserError(f"unknown reference {ref!r}. Use @last, @best, @best:ENV, a run's id or the start of one.")
    newest = ", ".join(run.id for run in known[:3])
    near = did_you_mean(ref, [run.id for run in known]) or did_you_mean(ref, [run.token for run in known])
    raise UserError(f"no run {ref!r} in {runs_dir}.{near} Newest: {newest}.")


def _named(ref: str, known: Sequence[RunInfo]) -> list[RunInfo]:
    """Those that an id, a name or the beginning of an id stands for."""
    for run in sorted(known, key=lambda run: run.path.name != ref):  # a copy under another name has the same id
        if run.id == ref:
            return [run]
    return [run for run in known if ref and run.name == ref] or [run for run in known if ref and run.id.startswith(ref)]


def _trained_by_sweeps(ref: str, runs_dir: Path) -> list[RunInfo]:
    """The same among the runs of sweeps, without their names: these are those of configs, which have several seeds."""
    found = [RunInfo(run.path, run.id) for run in in_sweeps(ref, runs_dir)] if ref else []
    return [run for run in found if run.id == ref] or found


def _best(runs: RunList, env: str) -> RunInfo:
    of_env = [run for run in runs if run.env == env]
    if not of_env:
        known = sorted({run.env for run in runs})
        raise UserError(f"no run of {env!r}.{did_you_mean(env, known)} There are runs of: {', '.join(known)}.")
    alike = [run for run in of_env if run.has_plain_score] or of_env
    scored = [(run.score, run) for run in alike if run.score is not None]
    if not scored:
        raise UserError(f"no run of {env} has a score yet; use @last or an id ({of_env[0].id}).")
    return max(scored, key=lambda pair: pair[0])[1]
