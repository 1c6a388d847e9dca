"""Where ROMs and savestates are. Imports neither Gymnasium nor the package: `gymnast envs list` asks."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from gymnast.envs.suites.retro.task import NAMESPACE, VERSION

FOLDER = "GYMNAST_RETRO"
IMPORT = "gymnast envs import-rom DIR"


def package_folder() -> str:
    """Where the package keeps its integrations: a folder a game. The package itself is not imported."""
    package = importlib.util.find_spec("stable_retro")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("stable_retro is not installed")
    return os.path.join(package.submodule_search_locations[0], "data", "stable")


def users_folder() -> Path:
    """Of ROMs and savestates, a folder a game: $GYMNAST_RETRO, else where programs of this user keep their data."""
    if given := os.environ.get(FOLDER):
        return Path(given)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "gymnast" / "retro"


def has_rom(game: str) -> bool:
    """In the user's folder, or in the package, which has that of Airstriker."""
    folders = (users_folder() / game, Path(package_folder()) / game)
    return any(path.suffix != ".sha" for folder in folders for path in folder.glob("rom.*"))


def id_of(game: str) -> str:
    return f"{NAMESPACE}{game.removesuffix(VERSION)}"
