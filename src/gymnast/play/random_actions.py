"""Actions without an agent: any that the env allows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.envs.types import VecEnv


def random_actions(env: VecEnv, mask: NDArray[np.bool_] | None, rng: np.random.Generator) -> NDArray[Any]:
    """One for each env, where `mask` is what may be taken now. Seed env.action_space and rng to get the same again."""
    masks = [None] * env.n_envs if mask is None else list(mask)
    return np.stack([_random_action(env.action_space, row, rng) for row in masks])


def same_actions(env: VecEnv, mask: NDArray[np.bool_] | None, seed: int) -> NDArray[Any]:
    """One and the same for all envs, as far as their masks allow; always the same for a seed."""
    rows = []
    for row in [None] if mask is None else list(mask):
        env.action_space.seed(seed)
        rows.append(_random_action(env.action_space, row, np.random.default_rng(seed)))
    return np.stack(rows * env.n_envs if mask is None else rows)


def _random_action(space: gym.Space[Any], mask: NDArray[np.bool_] | None, rng: np.random.Generator) -> Any:
    if mask is None:
        return space.sample()
    if isinstance(space, gym.spaces.Discrete):
        return rng.choice(np.flatnonzero(mask))
    if isinstance(space, gym.spaces.MultiDiscrete):
        parts = np.split(mask, np.cumsum(space.nvec.ravel())[:-1])
        return np.array([rng.choice(np.flatnonzero(part)) for part in parts]).reshape(space.shape)
    return np.logical_and(space.sample(), mask.reshape(space.shape)).astype(np.int8)
