"""The test behind "solved": arithmetic on paper, its error over many verdicts, and intervals that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gymnast.core.statistics import mean_interval, rises
from gymnast.judge.evidence import (
    ADAPTED,
    ERROR,
    NOTHING_SEEN,
    STAKES,
    WEIGHTS,
    Range,
    error_of,
    price,
    unseen,
    weigh,
)


def test_money_on_paper() -> None:
    """Threshold 10, never below 0: an episode of 15 pays the full stake 1 + 5/10, half of it 1 + 5/20, and so on. The
    stake that adapts is 1/2 at first; after a gain of 0.5 it would have grown fastest with all, 0.5 / 0.5 ** 2 > 1."""
    found = weigh(np.array([15.0, 8.0]), 10.0, Range(0.0, 20.0, floor=0.0))
    by_stake = [(1 + stake * 0.5) * (1 - stake * 0.2) for stake in STAKES]
    fixed = sum(w * m for w, m in zip(WEIGHTS, by_stake, strict=True))
    adapted = (1 + 0.5 * 0.5) * (1 - 1.0 * 0.2)
    assert found.money == pytest.approx(math.log((1 - ADAPTED) * fixed + ADAPTED * adapted))
    assert found.best == pytest.approx(math.log(max(by_stake)))
    assert found.mean == 11.5
    assert found.needed == pytest.approx(math.log(20))
    assert (found.worst, found.known) == (0.0, True)


def test_a_stake_follows_the_episodes_before_it() -> None:
    """An evaluation of 12 and 6 has gains of 0.2 and -0.4: nothing is staked. After a 19 it is 0.7 / 1.01 of all."""
    before = np.array([12.0, 6.0])
    found = weigh(np.array([19.0, 15.0]), 10.0, Range(0.0, 20.0, floor=0.0), before=before)
    by_stake = [(1 + stake * 0.9) * (1 + stake * 0.5) for stake in STAKES]
    fixed = sum(w * m for w, m in zip(WEIGHTS, by_stake, strict=True))
    assert found.money == pytest.approx(math.log((1 - ADAPTED) * fixed + ADAPTED * (1 + 0.7 / 1.01 * 0.5)))


def test_shares_of_the_error_sum_to_it() -> None:
    shares = [error_of(number) for number in range(1, 100_001)]
    assert shares[:3] == pytest.approx([ERROR / 2, ERROR / 6, ERROR / 12])
    assert ERROR * 0.9999 < sum(shares) <= ERROR
    assert sum(WEIGHTS) <= 1.0  # nobody bets money that is not there


def test_a_bet_is_fair_at_the_threshold() -> None:
    """At a mean of exactly the threshold the expected money is at most 1: two values, all samples by weight."""
    values, chances = np.array([0.0, 15.0]), np.array([1 / 3, 2 / 3])  # mean 10
    total = 0.0
    for sample in np.ndindex(*(2,) * 8):
        picked = np.array(sample)
        chance = float(np.prod(chances[picked]))
        total += chance * math.exp(weigh(values[picked], 10.0, Range(0.0, 20.0, floor=0.0), error=1e-9).money)
    assert total <= 1.0
    assert total == pytest.approx((1 - ADAPTED) * sum(WEIGHTS) + ADAPTED)


def test_the_first_episode_that_decides_ends_the_test() -> None:
    """What comes after it, however bad, is not looked at: a run has stopped by then."""
    good = np.full(100, 500.0)
    found = weigh(good, 475.0, Range(1.0, 500.0, floor=1.0), error_of(1))
    assert found.shown
    assert found.episodes < 100
    then_bad = np.concatenate([good, np.ones(100)])
    assert weigh(then_bad, 475.0, Range(1.0, 500.0, floor=1.0), error_of(1)) == found
    one_less = weigh(good[: found.episodes - 1], 475.0, Range(1.0, 500.0, floor=1.0), error_of(1))
    assert not one_less.shown


def test_without_a_floor_a_margin_and_a_least_number_of_episodes_are_taken() -> None:
    """A quarter of 9 to 500 below 9; and no fewer episodes than an unseen failure is promised for."""
    guessed = weigh(np.full(300, 500.0), 475.0, Range(9.0, 500.0), error_of(1), least=100)
    assert guessed.worst == pytest.approx(9 - (500 - 9) / 4)
    assert not guessed.known
    assert guessed.shown
    assert guessed.episodes >= 100
    easy = np.full(300, 500.0), 0.0, Range(-9.0, 500.0)
    assert weigh(*easy, error_of(1), least=100).episodes == 100
    assert weigh(easy[0], 0.0, Range(-9.0, 500.0, floor=-9.0), error_of(1), least=100).episodes < 20


def test_a_floor_that_an_episode_fell_through_is_none() -> None:
    seen = Range(-30.0, 21.0, floor=-21.0)
    assert not seen.known
    assert seen.worst == pytest.approx(-30 - 51 / 4)
    assert Range(-20.0, 21.0, floor=-21.0).worst == -21.0
    assert NOTHING_SEEN.over(np.array([3.0, 5.0])).worst == pytest.approx(2.5)


def test_worst_return_is_taken_from_the_sample_where_nothing_was_seen() -> None:
    returns = np.array([500.0] * 99 + [9.0])
    assert weigh(returns, 475.0, NOTHING_SEEN) == weigh(returns, 475.0, Range(9.0, 500.0))


def test_a_perfect_block_is_enough_for_the_first_verdict() -> None:
    """CartPole: episodes of 500, threshold 475, none below 1: log(1 + 25/474) each of the full stake."""
    found = weigh(np.full(100, 500.0), 475.0, Range(9.0, 500.0, floor=1.0), error_of(1))
    assert found.best == pytest.approx(found.episodes * math.log1p(25 / 474))
    assert found.shown


def test_a_threshold_at_the_ceiling_can_be_met_but_not_by_a_worse_agent() -> None:
    reached = weigh(np.full(100, 1.0), 1.0, Range(0.0, 1.0, floor=0.0), error_of(1))
    assert reached.shown
    missed = weigh(np.array([0.0] + [1.0] * 99), 1.0, Range(0.0, 1.0, floor=0.0), error_of(1))
    assert not missed.shown
    assert not missed.worth_more(1000)
    never_above = weigh(np.full(100, 0.97), 0.98, Range(0.0, 0.97, floor=0.0), error_of(1))
    assert not never_above.shown


def test_constant_returns_above_a_threshold_that_nothing_was_ever_below() -> None:
    assert weigh(np.full(100, 3.0), 2.0, NOTHING_SEEN, error_of(1)).shown
    assert weigh(np.full(100, 2.0), 2.0, NOTHING_SEEN, error_of(1)).shown


def test_an_agent_that_always_returns_exactly_the_threshold_reaches_it() -> None:
    """Whether some training episode once got more makes no difference."""
    for high in (2.0, 3.0):
        assert weigh(np.full(100, 2.0), 2.0, Range(0.0, high, floor=0.0), error_of(1)).shown
    assert not weigh(np.append(np.full(99, 2.0), 1.9), 2.0, Range(0.0, 3.0, floor=0.0), 1e-9).shown


def test_more_episodes_are_taken_only_where_they_may_decide() -> None:
    rng = np.random.default_rng(0)
    close = rng.normal(0.2, 1.0, 100)
    seen = Range(-4.0, 4.0, floor=-4.0)
    close += 0.2 - close.mean()
    assert weigh(close, 0.0, seen, error_of(1)).worth_more(1000)
    assert not weigh(close, 0.0, seen, error_of(1)).worth_more(100)  # no more are allowed
    assert not weigh(close - 0.21, 0.0, seen, error_of(1)).worth_more(1000)  # the mean is below
    assert not weigh(close - 0.195, 0.0, seen, error_of(1)).worth_more(1000)  # it would take forever
    assert not weigh(close + 2.0, 0.0, seen, error_of(1)).worth_more(1000)  # decided


def test_the_price_of_a_verdict_is_known_before_it() -> None:
    """CartPole, all 500: log(40) / log(1 + 25/474) episodes with everything staked. Pong at 18.1: over 1,400."""
    cartpole = price(np.full(20, 500.0), 475.0, Range(9.0, 500.0, floor=1.0), error_of(1))
    assert cartpole == pytest.approx(math.log(40) / math.log1p(25 / 474), rel=0.01)
    pong = price(np.array([18.0, 18.2] * 10), 18.0, Range(-21.0, 20.0, floor=-21.0), error_of(1))
    assert pong == pytest.approx(math.log(40) / math.log1p(0.1 / 39), rel=0.01)
    assert pong > 1400
    assert price(np.full(20, 17.0), 18.0, Range(-21.0, 20.0, floor=-21.0), error_of(1)) == math.inf
    assert price(np.full(20, 1.0), 1.0, Range(0.0, 1.0, floor=0.0), error_of(1)) == 1.0  # the highest there is


def test_a_failure_that_no_episode_showed_may_still_be_that_frequent() -> None:
    """0.025 = (1 - p) ** 100 at p = 3.6 %: the rule of three with 3.7, by e ** -x >= (1 - x / 100) ** 100."""
    assert unseen(100) == pytest.approx(0.0369, abs=1e-4)
    assert (1 - unseen(100)) ** 100 <= 0.025


def called_solved(rng: np.random.Generator, below: float) -> bool:
    """A run of 40 evaluations whose agents all have a mean that much below the threshold."""
    training = rng.normal(-below, 1.0, 500)
    seen, verdicts = Range(float(training.min()), float(training.max())), 0
    for _ in range(40):
        evaluation = rng.normal(-below, 1.0, 20)
        if evaluation.mean() < 0.0:
            continue
        verdicts += 1
        returns = np.empty(0)
        while True:
            returns = np.concatenate([returns, rng.normal(-below, 1.0, 100)])
            evidence = weigh(returns, 0.0, seen, error_of(verdicts), evaluation, least=100)
            if evidence.shown:
                return True
            if not evidence.worth_more(1000):
                break
    return False


def test_runs_that_never_reach_the_threshold_are_rarely_called_solved() -> None:
    """At most 5 % of runs: with 200 of them more than 17 would be a chance of 1 in 100."""
    rng = np.random.default_rng(1)
    for below in (0.0, 0.1):
        assert sum(called_solved(rng, below) for _ in range(200)) <= 17
    assert sum(called_solved(rng, -0.3) for _ in range(20)) == 20  # those that do reach it are


@pytest.mark.parametrize("episodes", [20, 100])
def test_intervals_hold_for_few_and_skewed_returns(episodes: int) -> None:
    """5 % of episodes crash: the bootstrap's percentiles hold in 64 % of samples of 20."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(300):
        returns = np.where(rng.random(episodes) < 0.05, -100.0, 250.0 + 15 * rng.normal(size=episodes))
        low, high = mean_interval(returns, -100.0, 300.0)
        held += low <= 0.95 * 250 - 0.05 * 100 <= high
    assert held >= 0.93 * 300


def test_an_interval_of_two_values_is_clopper_and_pearsons() -> None:
    """10 of 10: the lower end is 0.025 ** (1/10), the upper one 1."""
    low, high = mean_interval([1.0] * 10, 0.0, 1.0)
    assert low == pytest.approx(0.025**0.1, abs=0.02)
    assert high == 1.0


def test_noise_does_not_rise_and_a_slope_does() -> None:
    rng = np.random.default_rng(0)
    false = sum(rises(rng.normal(size=10).tolist()) for _ in range(1000))
    assert false < 25  # 3 standard errors at 8 degrees of freedom: 0.9 % by chance
    assert sum(rises((rng.normal(size=10) + np.arange(10)).tolist()) for _ in range(100)) > 95
    assert rises([1, 2, 3, 4])
    assert not rises([9.4] * 10)
    assert not rises([4, 3, 2, 1])


def test_intervals_of_many_values_go_on_as_those_of_fewer() -> None:
    rng = np.random.default_rng(3)
    few = 1 - rng.exponential(size=2_000)
    exact, normal = mean_interval(few, -9.0, 1.0), mean_interval([*few, float(few.mean())], -9.0, 1.0)
    assert normal == pytest.approx(exact, abs=0.004)
    low, high = mean_interval(rng.normal(size=200_000), -5.0, 5.0)
    assert (low, high) == pytest.approx((-1.96 / math.sqrt(200_000), 1.96 / math.sqrt(200_000)), abs=0.006)
