"""Whether episodes show that an agent's mean return is above a threshold: a test that may be asked again and again.

It bets against "the mean is at most the threshold". docs/verdicts.md has the mathematics and a simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ERROR = 0.05  # the most runs that are called solved although none of their agents exceeds the threshold
STAKES = 0.5 ** np.arange(8)  # of what a bet can lose at the most: all of it, half of it, ...
WEIGHTS = 1.0 / ((np.arange(8) + 1) * (np.arange(8) + 2))  # how the starting money is divided between the stakes
CEILING = 0.05  # of the range: how far below the highest possible return a mean can be distinguished from it
HOPE = 2.0  # how much faster than so far the evidence may grow before a verdict is given up

Returns = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """The lowest and the highest return of a run so far: what an agent must be expected to do at its worst and best."""

    low: float
    high: float

    def over(self, returns: Returns) -> Range:
        """With these returns in it; the ends of an empty range are infinite."""
        return Range(min(self.low, float(returns.min())), max(self.high, float(returns.max())))

    def joined(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


NOTHING_SEEN = Range(math.inf, -math.inf)


def error_of(number: int) -> float:
    """What the 1st, 2nd, 3rd ... verdict of a run may use of its error: 1/2, 1/6, 1/12, ..., which sum to 1."""
    return ERROR / (number * (number + 1))


@dataclass(frozen=True)
class Evidence:
    """What episodes say about a goal: logarithms of the money that bets have made of 1."""

    mean: float
    goal: float
    episodes: int
    money: float  # of all stakes together
    best: float  # of the best stake, in hindsight
    needed: float

    @property
    def shown(self) -> bool:
        """By Ville's inequality as likely as the verdict's share of the error, at the most, if the goal is not met."""
        return self.money >= self.needed

    def worth_more(self, most: int) -> bool:
        """Whether further episodes may decide, up to that many in all."""
        if self.shown or self.episodes >= most or self.mean < self.goal:
            return False
        return self.best * most / self.episodes * HOPE >= self.needed


def weigh(returns: Returns, goal: float, seen: Range, error: float = ERROR) -> Evidence:
    """What these episodes say about the goal; `error`: how often they may say wrongly that it is met."""
    seen = seen.over(returns)
    low = seen.low
    if low >= goal:  # nobody knows how bad it can get: as far below the goal as it has been above
        low = goal - ((seen.high - goal) or 1.0)
    # A mean cannot be above a goal that is the highest return there is: where every episode reaches it, that is enough
    # to show that the mean is near it.
    reached = returns.min() >= goal >= seen.high
    tested = goal - CEILING * (goal - low) if reached else goal
    gains = (returns - tested) / (tested - low)
    with np.errstate(divide="ignore"):  # all is lost: no money, whose logarithm is -inf
        logs = np.log1p(STAKES[:, None] * np.maximum(gains, -1.0)).sum(axis=1)
    return Evidence(
        mean=float(returns.mean()),
        goal=goal,
        episodes=len(returns),
        money=float(np.logaddexp.reduce(np.log(WEIGHTS) + logs)),
        best=float(logs.max()),
        needed=-math.log(error),
    )
