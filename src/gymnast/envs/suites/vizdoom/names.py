"""Importing this registers the ids of ViZDoom, and those under which people look for them."""

from __future__ import annotations

import gymnasium as gym
import vizdoom.gymnasium_wrapper  # noqa: F401, registers its own

from gymnast.envs.suites.vizdoom.suite import OLD

for _old in OLD:
    gym.register(_old, entry_point="gymnast.envs.suites.vizdoom.env:DoomEnv")
