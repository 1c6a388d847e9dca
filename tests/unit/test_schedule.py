"""Schedules: values on paper, forms there and back, errors that teach."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gymnast.core.schedule import Every, Schedule

FORMS: list[Any] = [
    3e-4,
    0.0,
    "lin_0.001",
    {"start": 1.0, "end": 0.5},
    {"start": 1.0, "end": 0.0, "from": 0.25, "to": 0.75},
    {"start": 1.0, "end": 0.0, "shape": "cosine"},
    {"start": 1.0, "end": 0.0, "floor": 0.1},
    {"points": [[0.0, 1.0], [0.5, 0.5], [0.5, 0.1], [1.0, 0.0]]},
    {"points": [[0.5, 1.0], [0.5, 2.0]]},
]


def test_constant_everywhere() -> None:
    schedule = Schedule.parse(3e-4)
    assert [schedule.value(p) for p in (0.0, 0.3, 1.0)] == [3e-4] * 3
    assert schedule.is_constant


def test_zoo_style_falls_linearly_to_zero() -> None:
    schedule = Schedule.parse("lin_1e-3")
    # 1e-3 x (1 - 0.25) = 7.5e-4, and exactly what stable-baselines3 computes: remaining progress x start.
    assert schedule.value(0.25) == 0.75 * 1e-3
    assert (schedule.value(0.0), schedule.value(1.0)) == (1e-3, 0.0)
    assert not schedule.is_constant


def test_ramp_between_from_and_to_is_constant_outside() -> None:
    schedule = Schedule.parse({"start": 8, "end": 4, "from": 0.25, "to": 0.75})
    # Half-way between 0.25 and 0.75 is 0.5: (8 + 4) / 2 = 6.
    assert [schedule.value(p) for p in (0.0, 0.25, 0.5, 0.75, 1.0)] == [8, 8, 6, 4, 4]


def test_cosine_is_half_way_in_the_middle_and_slow_at_the_ends() -> None:
    schedule = Schedule.parse({"start": 1, "end": 0, "shape": "cosine"})
    # (1 + cos(pi / 4)) / 2 = 0.853553...
    assert schedule.value(0.25) == pytest.approx((1 + math.cos(math.pi / 4)) / 2, abs=1e-15)
    assert schedule.value(0.5) == pytest.approx(0.5, abs=1e-15)
    assert (schedule.value(0.0), schedule.value(1.0)) == (1.0, 0.0)


def test_points_are_joined_linearly_and_may_jump() -> None:
    schedule = Schedule.parse({"points": [[0, 1.0], [0.5, 0.5], [0.5, 0.1], [0.9, 0.3]]})
    # 0.25 is half-way from 1 to 0.5; at 0.5 the later point holds; 0.7 is half-way from 0.1 to 0.3.
    assert schedule.value(0.25) == 0.75
    assert schedule.value(0.5) == 0.1
    assert schedule.value(0.7) == pytest.approx(0.2, abs=1e-15)
    assert schedule.value(1.0) == 0.3


def test_floor_cuts_from_below() -> None:
    schedule = Schedule.parse({"start": 1, "end": 0, "floor": 0.25})
    assert [schedule.value(p) for p in (0.5, 0.75, 1.0)] == [0.5, 0.25, 0.25]
    assert (schedule.lowest, schedule.highest) == (0.25, 1.0)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_form_survives_a_round_trip(form: Any) -> None:
    schedule = Schedule.parse(form)
    assert schedule.to_form() == form
    assert Schedule.parse(schedule.to_form()) == schedule


def test_shortest_form_is_written() -> None:
    assert Schedule.parse({"start": 0.1, "end": 0, "from": 0, "to": 1, "shape": "linear"}).to_form() == "lin_0.1"
    assert Schedule.parse("0.5").to_form() == 0.5


@pytest.mark.parametrize(
    "form, words",
    [
        ("fast", "'fast' is not a schedule. Use a number (3e-4), 'lin_3e-4'"),
        ("lin_", "'lin_' is not a schedule"),
        ("exp_1e-3", "'exp_1e-3' is not a schedule"),
        (True, "must be a finite number, not True"),
        (float("nan"), "must be a finite number"),
        ("inf", "must be a finite number"),
        (None, "must be a finite number, not None"),
        ({"start": 1}, "'end' is missing"),
        ({"start": 1, "end": 0, "stop": 1}, "no key 'stop'"),
        ({"start": "a", "end": 0}, "start must be a finite number"),
        ({"start": 1, "end": 0, "from": 0.5, "to": 0.5}, "0 <= from < to <= 1"),
        ({"start": 1, "end": 0, "to": 1.5}, "0 <= from < to <= 1"),
        ({"start": 1, "end": 0, "shape": "square"}, "one of linear, cosine"),
        ({"points": []}, "list of [progress, value] pairs"),
        ({"points": [[0, 1, 2]]}, "must be a pair"),
        ({"points": [[0.5, 1], [0.2, 0]]}, "ordered by progress: 0.2 comes after 0.5"),
        ({"points": [[0, 1], [1.5, 0]]}, "1.5 is outside 0..1"),
        ({"points": [[0, 1]], "shape": "cosine"}, "no key 'shape'"),
    ],
)
def test_wrong_form_is_refused_with_its_reason(form: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Schedule.parse(form)
    assert words in str(caught.value)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-10, 10)), min_size=1, max_size=5),
    st.floats(-0.5, 1.5),
)
def test_value_stays_between_lowest_and_highest(points: list[tuple[float, float]], progress: float) -> None:
    schedule = Schedule.parse({"points": sorted(points)})
    slack = 1e-12  # rounding of the interpolation
    assert schedule.lowest - slack <= schedule.value(progress) <= schedule.highest + slack
    assert Schedule.parse(schedule.to_form()) == schedule


def test_every_is_due_at_the_first_moment_on_or_after_each_multiple() -> None:
    """Every 100 steps, looked at every 64: at 128 for 100, at 256 for 200, 320 for 300, 448 for 400, 512 for 500."""
    every = Every(100)
    every.done(0)  # a run begins: the first multiple is 100
    happened = []
    for step in range(64, 513, 64):
        if every.due(step):
            happened.append(step)
            every.done(step)
    assert happened == [128, 256, 320, 448, 512]
    assert every.next == 600


def test_every_counts_a_multiple_that_is_hit_exactly_and_skips_those_that_were_missed() -> None:
    every = Every(10)
    assert every.due(0)  # nothing has happened yet
    every.done(10)
    assert every.next == 20
    assert not every.due(19)
    assert every.due(20)
    every.done(57)  # 20, 30, 40 and 50 are over: once, not four times
    assert every.next == 60


def test_every_happens_a_last_time_at_the_end_and_never_where_it_is_off() -> None:
    every = Every(1000)
    every.done(100)
    assert not every.due(200)
    assert every.due(200, ending=True)
    never = Every(0)
    never.done(100)
    assert not never.due(10**9)
    assert not never.due(10**9, ending=True)
