"""What can be asked of an env before anything is trained on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np

from gymnast.envs.make import make_env
from gymnast.envs.spaces import ObsLayout
from gymnast.envs.suites.gymnasium import find_spec

if TYPE_CHECKING:
    from gymnast.config import EnvConfig


def registered_threshold(cfg: EnvConfig) -> float | None:
    """The mean return that the env's authors call solved, where they registered one."""
    return find_spec(cfg.id).reward_threshold


def space_kinds(cfg: EnvConfig) -> tuple[bool, bool]:
    """Whether observations hold real-valued vectors, and whether actions are continuous."""
    env = make_env(cfg)
    try:
        leaves = ObsLayout(env.observation_space).obs_space.values()
        vectors = any(isinstance(leaf, gym.spaces.Box) and np.issubdtype(leaf.dtype, np.floating) for leaf in leaves)
        return vectors, isinstance(env.action_space, gym.spaces.Box)
    finally:
        env.close()
