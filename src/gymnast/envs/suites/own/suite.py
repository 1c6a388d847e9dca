"""This package's own envs. Importing this module registers their ids; each env is imported when it is made."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from gymnast.envs.snapshot import load_numbers, save_numbers
from gymnast.envs.suites.base import Suite
from gymnast.envs.suites.own.bandit import BERNOULLI_ARMS


class OwnSuite(Suite):
    def extra_of(self, module: str) -> str | None:
        return "box2d" if module.startswith("gymnast.envs.suites.own.lunar_lander") else None

    def save_game(self, game: gym.Env[Any, Any]) -> Any:
        return save_numbers(game) if type(game).__name__ in ("Bandit", "Corridor") else None

    def load_game(self, game: gym.Env[Any, Any], saved: Any) -> None:
        load_numbers(saved)


gym.register("gymnast/Bandit-v0", entry_point="gymnast.envs.suites.own.bandit:Bandit")
gym.register(
    "gymnast/BernoulliBandit-v0",
    entry_point="gymnast.envs.suites.own.bandit:Bandit",
    kwargs={"means": BERNOULLI_ARMS, "payout": "bernoulli"},
)
gym.register(
    "gymnast/RandomisedLunarLander-v0",
    entry_point="gymnast.envs.suites.own.lunar_lander:RandomisedLunarLander",
    max_episode_steps=1000,
    reward_threshold=200,
)
gym.register("gymnast/Corridor-v0", entry_point="gymnast.envs.suites.own.corridor:Corridor")
