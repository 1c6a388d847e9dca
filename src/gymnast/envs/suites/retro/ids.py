"""Registers every game that the package has an integration for, as Retro/GAME. No ROM is needed to know an id."""

from __future__ import annotations

import importlib.util
import os

import gymnasium as gym

NAMESPACE = "Retro/"
VERSION = "-v0"  # of all integrations


def package_folder() -> str:
    """Where the package keeps its integrations: a folder a game. The package itself is not imported."""
    package = importlib.util.find_spec("stable_retro")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("stable_retro is not installed")
    return os.path.join(package.submodule_search_locations[0], "data", "stable")


def id_of(game: str) -> str:
    return f"{NAMESPACE}{game.removesuffix(VERSION)}"


for _game in sorted(os.listdir(package_folder())):
    if _game.endswith(VERSION) and id_of(_game) not in gym.registry:
        gym.register(id_of(_game), entry_point="gymnast.envs.suites.retro.env:RetroGame", kwargs={"game": _game})
