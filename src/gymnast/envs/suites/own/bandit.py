"""Multi-armed bandits: the smallest task with an exact optimum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.core.errors import UserError

GAUSSIAN_ARMS = (-1.0, -0.6, -0.3, -0.1, 0.0, 0.2, 0.4, 0.7, 1.0, 1.5)
BERNOULLI_ARMS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.9)


class Bandit(gym.Env[Any, Any]):
    """Pull arm i: a payout of mean `means[i]`, Gaussian with `std`, or 1 with that probability; `horizon` pulls each.

    There is nothing to see (one constant observation) and nothing to draw. `P` and `initial_state_distrib` describe it
    as they do Gymnasium's toy text envs: one state, and each arm's expected payout.
    """

    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it
    render_mode = None

    def __init__(
        self,
        means: Sequence[float] = GAUSSIAN_ARMS,
        payout: Literal["gaussian", "bernoulli"] = "gaussian",
        std: float = 1.0,
        horizon: int = 1,
    ) -> None:
        if payout not in ("gaussian", "bernoulli"):
            raise UserError(f"env.kwargs: payout is {payout!r} and must be gaussian or bernoulli.")
        if len(means) == 0 or not all(math.isfinite(mean) for mean in means):
            raise UserError(f"env.kwargs: means is {list(means)} and must be a list of numbers, one for each arm.")
        if payout == "bernoulli" and not all(0 <= mean <= 1 for mean in means):
            raise UserError(f"env.kwargs: means is {list(means)}; bernoulli payouts need probabilities from 0 to 1.")
        if horizon < 1 or std < 0:
            raise UserError(f"env.kwargs: horizon is {horizon} and std is {std}; they must be >= 1 and >= 0.")
        self.means = np.array(means, dtype=np.float64)
        self.payout, self.std, self.horizon = payout, std, horizon
        self.P = {0: {arm: [(1.0, 0, float(mean), False)] for arm, mean in enumerate(means)}}
        self.initial_state_distrib = np.ones(1)
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(len(means))
        self._pulls = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._pulls = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        mean = self.means[action]
        if self.payout == "gaussian":
            reward = float(self.np_random.normal(mean, self.std))
        else:
            reward = float(self.np_random.random() < mean)
        self._pulls += 1
        return 0, reward, self._pulls >= self.horizon, False, {}
