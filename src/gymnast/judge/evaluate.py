"""How good an agent is: whole episodes, as many of each env, on seeds that training never sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gymnast.agent.nets import Net
from gymnast.core.errors import UserError
from gymnast.core.pulse import Pulse
from gymnast.core.statistics import mean_interval
from gymnast.envs.types import EpisodeRecord, VecEnv
from gymnast.judge.evidence import NOTHING_SEEN, Evidence, Range
from gymnast.play.player import Moment, play

MOST_STEPS = 100_000  # vector steps without an episode's end, after which there is none to wait for
PRIME = np.uint64(1_099_511_628_211)  # of the FNV hash, which needs no more than a product a step


@dataclass(frozen=True)
class Episode:
    """A finished episode, and a number that two different ones hardly share."""

    record: EpisodeRecord
    print: int


@dataclass(frozen=True)
class Evaluation:
    """Scores of finished episodes, in the env's own reward."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    prints: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # none: nobody compared them

    @classmethod
    def of(cls, episodes: Iterable[Episode]) -> Evaluation:
        known = list(episodes)
        return cls(
            np.array([episode.record.raw_return for episode in known], np.float64),
            np.array([episode.record.length for episode in known], np.int64),
            np.array([episode.print for episode in known], np.uint64),
        )

    @property
    def episodes(self) -> int:
        return len(self.returns)

    @property
    def distinct(self) -> int:
        """How many of the episodes differ from all earlier ones in first observation, actions or rewards."""
        return len(np.unique(self.prints)) if len(self.prints) else self.episodes

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())

    def interval(self, seen: Range = NOTHING_SEEN, test: Evidence | None = None) -> tuple[float, float]:
        """Where the true mean lies with 95 % confidence; `seen`: how low and high returns were in the run so far;
        `test`: on the same agent, whose lowest return is assumed here, too."""
        worst = seen.over(self.returns).worst
        return mean_interval(self.returns, worst if test is None else min(worst, test.worst), seen.high)


def evaluate(
    net: Net,
    env: VecEnv,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    pulse: Pulse | None = None,
) -> Evaluation:
    """Runs that many episodes and returns their scores; `pulse` counts them and may break off.

    The agent does not learn and its normaliser does not move.
    """
    return Evaluation.of(islice(episodes_in_turn(net, env, episodes, seed, deterministic, pulse), episodes))


def episodes_in_turn(
    net: Net,
    env: VecEnv,
    most: int,
    seed: int,
    deterministic: bool = True,
    pulse: Pulse | None = None,
) -> Iterator[Episode]:
    """The first episode of each env, then the second of each, and so on: in an order that no length can change.

    Counting whichever finish first would favour short ones. At most `most` of them.
    """
    pulse = pulse or Pulse()
    prints = Fingerprints(env.n_envs)
    ended: dict[int, Episode] = {}  # by their place in the order, until those before them have ended
    begun, given, waited, total = [0] * env.n_envs, 0, 0, 0.0
    for moment in play(net, env, seed, deterministic):
        for episode in prints.follow(moment):
            row = episode.record.env
            place, begun[row] = begun[row] * env.n_envs + row, begun[row] + 1
            if place < most:
                ended[place], waited, total = episode, 0, total + episode.record.raw_return
                pulse.mean = total / (given + len(ended))
        while given in ended:
            yield ended.pop(given)
            given += 1
        if given == most:
            return
        pulse.done, pulse.steps = given + len(ended), pulse.steps + 1
        pulse.check()
        waited += 1
        if waited > MOST_STEPS:
            raise UserError(
                f"evaluation: no episode has ended in {MOST_STEPS:,} steps. The env has no time limit and this policy "
                "never ends it: set env.max_episode_steps."
            )


class Fingerprints:
    """Numbers of episodes: of the first observation, all actions and all rewards."""

    def __init__(self, n_envs: int) -> None:
        self._now = np.zeros(n_envs, np.uint64)
        self._fresh = list(range(n_envs))

    def follow(self, moment: Moment) -> list[Episode]:
        """The episodes that have ended at this moment."""
        now = moment.now
        self._add(now.reward)
        ended = [Episode(record, int(self._now[record.env])) for record in now.episodes]
        for row in [*self._fresh, *(record.env for record in now.episodes)]:
            start = 0
            for leaf in now.obs.values():
                start = crc32(np.ascontiguousarray(leaf[row]).data, start)
            self._now[row] = start
        self._fresh = []
        self._add(moment.actions)
        return ended

    def _add(self, numbers: NDArray[np.generic]) -> None:
        columns = np.ascontiguousarray(numbers.reshape(len(self._now), -1), np.float64).view(np.uint64)
        for column in columns.T:
            self._now = (self._now ^ column) * PRIME
