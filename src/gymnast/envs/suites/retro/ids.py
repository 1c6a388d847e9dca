"""Registers every game that the package has an integration for, as Retro/GAME. No ROM is needed to know an id."""

from __future__ import annotations

import os

import gymnasium as gym

from gymnast.envs.suites.retro.places import id_of, package_folder
from gymnast.envs.suites.retro.task import VERSION

for _game in sorted(os.listdir(package_folder())):
    if _game.endswith(VERSION) and id_of(_game) not in gym.registry:
        gym.register(id_of(_game), entry_point="gymnast.envs.suites.retro.env:RetroGame", kwargs={"game": _game})
