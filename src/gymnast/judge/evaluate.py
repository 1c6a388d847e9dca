"""How good an agent is: whole episodes, a fixed quota per env, on seeds that training never sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gymnast.agent import Agent
from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.core.statistics import interval, mean
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.judge.exact import ExactScore
from gymnast.rl.collector import choose_actions

PATIENCE = 100_000  # vector steps without an episode's end, after which there is none to wait for


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

    def interval(self) -> tuple[float, float]:
        """Where the true mean lies with 95 % confidence: the bootstrap's percentiles (returns are rarely normal)."""
        return interval(mean, self.returns)


@dataclass(frozen=True)
class Verdict:
    """Whether an agent solves its env, judged on episodes that no decision was based on."""

    evaluation: Evaluation
    threshold: float | None
    policy: str  # greedy or stochastic
    attempts: int  # how many verdicts this run has asked for; many tries make luck likelier
    exact: ExactScore | None = None  # of the same policy, where the env's transitions are a table

    @property
    def score(self) -> float:
        """What is held against the threshold: the exact value where there is one, which no lucky episodes can lift."""
        return self.evaluation.mean if self.exact is None else self.exact.value

    @property
    def solved(self) -> bool:
        return self.threshold is not None and self.score >= self.threshold


def command_seed(seed: int) -> int:
    """Root of the episodes that commands play where none is given: `gymnast eval` and `gymnast video` see the same."""
    return derive_seed(seed, "eval command")


def play(agent: Agent, env: VecEnv, seed: int, deterministic: bool = True) -> Iterator[tuple[StepBatch, NDArray[Any]]]:
    """Steps the envs for ever: what they show, and what the agent is about to do in them. It does not learn."""
    generator = None
    if not deterministic:
        generator = torch.Generator(next(agent.parameters()).device).manual_seed(derive_seed(seed, "actions"))
    now = env.reset(derive_seed(seed, "envs"))
    step = 0
    while True:
        actions = choose_actions(agent, now, generator, step)
        yield now, actions
        now = env.step(actions)
        step += 1


def evaluate(agent: Agent, env: VecEnv, episodes: int, seed: int, deterministic: bool = True) -> Evaluation:
    """Runs that many episodes and returns their scores.

    Each env has its quota and counts its first episodes only: counting whichever finish first would favour short
    ones. The agent does not learn and its normaliser does not move.
    """
    quota = np.full(env.n_envs, episodes // env.n_envs)
    quota[: episodes % env.n_envs] += 1
    done: list[EpisodeRecord] = []
    waited = 0
    for now, _ in play(agent, env, seed, deterministic):
        for record in now.episodes:
            if quota[record.env]:
                quota[record.env] -= 1
                done.append(record)
                waited = 0
        if not quota.any():
            break
        waited += 1
        if waited > PATIENCE:
            raise UserError(
                f"evaluation: no episode has ended in {PATIENCE:,} steps. The env has no time limit and this policy "
                "never ends it: set env.max_episode_steps."
            )
    return Evaluation(np.array([record.raw_return for record in done]), np.array([record.length for record in done]))
