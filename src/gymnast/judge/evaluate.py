"""How good an agent is: whole episodes, a fixed quota per env, on seeds that training never sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gymnast.agent.nets import Net
from gymnast.core.errors import UserError
from gymnast.core.pulse import Pulse
from gymnast.core.statistics import mean_interval
from gymnast.envs.types import EpisodeRecord, VecEnv
from gymnast.judge.evidence import NOTHING_SEEN, Range
from gymnast.play.player import play

MOST_STEPS = 100_000  # vector steps without an episode's end, after which there is none to wait for


@dataclass(frozen=True)
class Evaluation:
    """Scores of finished episodes, in the env's own reward."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @property
    def episodes(self) -> int:
        return len(self.returns)

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())

    def interval(self, seen: Range = NOTHING_SEEN) -> tuple[float, float]:
        """Where the true mean lies with 95 % confidence; `seen`: how low and high returns were in the run so far."""
        return mean_interval(self.returns, seen.low, seen.high)


def evaluate(
    net: Net,
    env: VecEnv,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    pulse: Pulse | None = None,
    before: int = 0,
) -> Evaluation:
    """Runs that many episodes and returns their scores; `pulse` counts them, from those `before` on, and may break off.

    Each env has its quota and counts its first episodes only: counting whichever finish first would favour short
    ones. The agent does not learn and its normaliser does not move.
    """
    pulse = pulse or Pulse()
    quota = np.full(env.n_envs, episodes // env.n_envs)
    quota[: episodes % env.n_envs] += 1
    done: list[EpisodeRecord] = []
    waited = 0
    for moment in play(net, env, seed, deterministic):
        for record in moment.now.episodes:
            if quota[record.env]:
                quota[record.env] -= 1
                done.append(record)
                waited = 0
        if not quota.any():
            break
        pulse.done, pulse.steps = before + len(done), pulse.steps + 1
        pulse.check()
        waited += 1
        if waited > MOST_STEPS:
            raise UserError(
                f"evaluation: no episode has ended in {MOST_STEPS:,} steps. The env has no time limit and this policy "
                "never ends it: set env.max_episode_steps."
            )
    return Evaluation(np.array([record.raw_return for record in done]), np.array([record.length for record in done]))
