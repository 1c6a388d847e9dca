"""What a page may open and start. A run may come from somebody else: what its files name or advise is run only after a
question, whose answer the page sends with the same request as `trust`."""

from __future__ import annotations

from pathlib import Path

from gymnast.core.errors import UserError
from gymnast.core.text import printable
from gymnast.core.trust import Untrusted, origin_of
from gymnast.runs.checkpoint import require_trusted
from gymnast.runs.references import CHECKPOINT_NAME, Run, SavedFile, resolve_checkpoint
from gymnast.studio.answers import Unconfirmed


def checkpoint_inside(runs_dir: Path, ref: str) -> tuple[Run, Path]:
    """RUN or RUN@CHECKPOINT. Only runs of the folder that is shown: not a path to somewhere else."""
    base, at, name = ref.rpartition("@")
    if at and base and CHECKPOINT_NAME.fullmatch(name):
        ref = f"{base}/{name}"
    run, path = resolve_checkpoint(ref, runs_dir)
    folder = runs_dir.resolve()
    if isinstance(run, SavedFile) or not path.resolve().is_relative_to(folder):
        raise UserError(f"run {ref!r}: only runs of {runs_dir.name} can be opened here.")
    return run, path


def confirm_code(path: Path, trust: bool) -> None:
    """Unconfirmed if a checkpoint names code that is not of this machine, and the user has not said yes."""
    if trust:
        return
    try:
        require_trusted(path)
    except Untrusted as error:
        named = ", ".join(error.named)
        origin = error.origin[:1].upper() + error.origin[1:]
        question = (
            f"{error.where} needs code that is no part of Gymnast: {named}.\n\n{origin}. Load that code and run it?"
        )
        raise Unconfirmed(str(error), question) from None


def confirm_command(run: Run, command: str, trust: bool) -> None:
    """The same of a command that stands in the files of a run that was not made here."""
    if trust or (origin := origin_of(run.path)) is None:
        return
    said = f"run {run.id}: {origin}, and its files say what to start: {printable(command)}"
    raise Unconfirmed(f"{said}. Nothing was started.", f"{said}\n\nStart it?")
