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
WEIGHTS = 1.0 / ((np.arange(8) + 1) * (np.arange(8) + 2))  # how the money on fixed stakes is divided between them
ADAPTED = 0.5  # of the starting money: on a stake that follows the episodes before each bet
CEILING = 0.05  # of the range: how far below the highest possible return a mean can be distinguished from it
HOPE = 2.0  # how much faster than so far the evidence may grow before a verdict is given up
MARGIN = 0.25  # of the range seen: how far below it an agent is expected to fall, where no floor is known

Returns = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """The lowest and the highest return of a run so far, and the lowest that the env allows, where that is known."""

    low: float
    high: float
    floor: float | None = None

    def over(self, returns: Returns) -> Range:
        """With these returns in it; the ends of an empty range are infinite."""
        if not len(returns):
            return self
        return Range(min(self.low, float(returns.min())), max(self.high, float(returns.max())), self.floor)

    def joined(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high), self.floor)

    @property
    def known(self) -> bool:
        """Whether the lowest possible return is known; a floor that an episode fell through is none."""
        return self.floor is not None and self.floor <= self.low

    @property
    def worst(self) -> float:
        """What an agent must be expected to do at its worst. A guess, somewhat below what was seen, if not known."""
        if self.floor is not None and self.floor <= self.low:
            return self.floor
        return self.low - MARGIN * (self.high - self.low) if self.low <= self.high else self.low


NOTHING_SEEN = Range(math.inf, -math.inf)


def error_of(number: int) -> float:
    """What the 1st, 2nd, 3rd ... verdict of a run may use of its error: 1/2, 1/6, 1/12, ..., which sum to 1."""
    return ERROR / (number * (number + 1))


def unseen(episodes: int) -> float:
    """How frequent a kind of episode may be, at 95 % confidence, of which none was among so many."""
    return min(1.0, -math.log(ERROR / 2) / episodes)


@dataclass(frozen=True)
class Evidence:
    """What episodes say about a goal: logarithms of the money that bets have made of 1."""

    mean: float
    goal: float
    episodes: int  # up to the one that decides, or all of them
    money: float  # of all stakes together
    best: float  # of the best fixed stake, in hindsight
    needed: float
    worst: float  # the lowest return that the bets assume
    known: bool  # whether that is known to be the lowest there is

    def to_json(self) -> dict[str, float | bool]:
        """What a summary says of the test."""
        return {
            "goal": self.goal,
            "shown": self.shown,
            "mean": self.mean,
            "episodes": self.episodes,
            "lowest_return": self.worst,
            "lowest_return_known": self.known,
            "unseen_failure_rate": unseen(self.episodes),
        }

    @property
    def shown(self) -> bool:
        """By Ville's inequality as likely as the verdict's share of the error, at the most, if the goal is not met."""
        return self.money >= self.needed

    def enough(self, least: int, most: int) -> int:
        """About how many episodes in all decide, if they go on as they began."""
        expected = self.episodes * self.needed / self.money if self.money > 0 else most
        return max(self.episodes + 1, min(most, math.ceil(expected)), 0 if self.known else least)

    def worth_more(self, most: int) -> bool:
        """Whether further episodes may decide, up to that many in all."""
        if self.shown or self.episodes >= most or self.mean < self.goal:
            return False
        return self.best * most / self.episodes * HOPE >= self.needed


def weigh(
    returns: Returns,
    goal: float,
    seen: Range,
    error: float = ERROR,
    before: Returns | None = None,
    least: int = 1,
) -> Evidence:
    """What these episodes say about the goal, in their order; `error`: how often they may say wrongly that it is met.

    They are looked at one by one, and the first that decides ends the test. `before`: earlier returns of this agent,
    which the first stakes are chosen by. `least`: episodes without which nothing is decided where no floor is known.
    """
    seen = seen.over(returns)
    worst = seen.worst
    if worst >= goal:  # nobody knows how bad it can get: as far below the goal as it has been above
        worst = goal - ((seen.high - goal) or 1.0)
    # A mean cannot be above a goal that is the highest return there is, or the only one of this agent: where every
    # episode reaches it, that is enough to show that the mean is near it.
    reached = returns.min() >= goal and (goal >= seen.high or returns.max() == goal)
    gains = _gains(returns, goal, worst, reached)
    adapted = _follow(gains, None if before is None else _gains(before, goal, worst, reached))
    with np.errstate(divide="ignore"):  # all is lost: no money, whose logarithm is -inf
        fixed = np.log1p(STAKES[:, None] * gains).cumsum(axis=1)
        moving = np.log1p(adapted * gains).cumsum()
    shares = np.log(np.append((1 - ADAPTED) * WEIGHTS, ADAPTED))
    money = np.logaddexp.reduce(shares[:, None] + np.vstack([fixed, moving]))
    needed = -math.log(error)
    deciding = np.flatnonzero(money >= needed)
    deciding = deciding[deciding >= (0 if seen.known else least - 1)]
    last = int(deciding[0]) if len(deciding) else len(returns) - 1
    decided = len(deciding) > 0
    return Evidence(
        mean=float(returns[: last + 1].mean()),
        goal=goal,
        episodes=last + 1,
        money=float(money[last]) if decided else min(float(money[last]), math.nextafter(needed, 0.0)),
        best=float(fixed[:, last].max()),
        needed=needed,
        worst=worst,
        known=seen.known,
    )


def price(returns: Returns, goal: float, seen: Range, error: float) -> float:
    """How many episodes a verdict on an agent with such returns may take; infinite if its mean is not above the goal.

    A guess from below: the best stake in hindsight grows faster than those of a verdict.
    """
    seen = seen.over(returns)
    if seen.worst >= goal or (returns.min() >= goal and (goal >= seen.high or returns.max() == goal)):
        return 1.0  # quickly decided, whatever it is
    growth = float(np.log1p(STAKES[:, None] * 0.999 * _gains(returns, goal, seen.worst, False)).mean(axis=1).max())
    return -math.log(error) / growth if growth > 0 else math.inf


def _gains(returns: Returns, goal: float, worst: float, reached: bool) -> Returns:
    """What each episode adds to a stake, by that stake: at least -1, and on average at most 0 if the goal is missed."""
    tested = goal - CEILING * (goal - worst) if reached else goal
    return np.maximum((returns - tested) / (tested - worst), -1.0)


def _follow(gains: Returns, before: Returns | None) -> Returns:
    """The stake on each episode, by those before it alone: what would have grown fastest, to the second order."""
    earlier = np.concatenate([np.zeros(0) if before is None else before, gains[:-1]])
    first = len(earlier) - (len(gains) - 1)  # episodes before the first bet
    sums, squares = np.append(0.0, earlier.cumsum()), np.append(0.0, (earlier**2).cumsum())
    with np.errstate(divide="ignore", invalid="ignore"):
        stakes = np.where(squares > 0, sums / squares, 0.5)
    return np.clip(stakes[first:], 0.0, 1.0)
