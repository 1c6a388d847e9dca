"""Pictures that matplotlib writes: what can be wrong with the file is reported before the work begins."""

from __future__ import annotations

from pathlib import Path

from gymnast.core.errors import UserError
from gymnast.verbs.extras import EXTRAS

FORMATS = (".png", ".svg", ".pdf")


def check_picture(option: str, path: Path) -> None:
    if path.suffix not in FORMATS:
        raise UserError(f"{option} {path}: must end in one of {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise UserError(f"{option} {path}: there is no folder {str(path.parent)!r}.")
    if command := EXTRAS["plot"].command:
        raise UserError(f"{option} needs matplotlib, which is not installed. Run: {command}")
