"""`gymnast envs import-rom`: which files of a folder are ROMs that stable-retro knows, and a copy of those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.envs.suites import suite_of
from gymnast.envs.suites.retro.task import NAMESPACE
from gymnast.verbs.result import Facts


def import_rom(folder: Path) -> Facts:
    """Known ROMs are copied into the user's folder; nothing else is changed, and no file is sent anywhere."""
    if missing := suite_of(NAMESPACE).missing:
        raise UserError(f"import-rom: {missing}")
    if not folder.is_dir():
        raise UserError(f"import-rom: {folder} is not a folder. Name the folder that has the ROM in it.")
    from gymnast.envs.suites.retro.places import id_of, users_folder
    from gymnast.envs.suites.retro.roms import find_roms, keep

    rows: list[dict[str, Any]] = []
    for found in find_roms(folder):
        if found.status == "new":
            keep(found)
        rows.append(
            {
                "file": found.file,
                "env": None if found.game is None else id_of(found.game),
                "status": "imported" if found.status == "new" else found.status,
            }
        )
    return Facts({"folder": str(folder), "into": str(users_folder()), "files": rows})
