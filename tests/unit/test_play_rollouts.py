"""Rollouts on paper: what counts, and what is reported instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gymnast.play import rollouts
from gymnast.play.session import PlaySession
from gymnast.play.trace import Trace
from tests.envs_for_tests import full_id
from tests.unit.test_play_session import session_of


@pytest.fixture
def counting() -> Iterator[PlaySession]:
    """Pays 1, 2, 3, 4, 5 and ends; it has no copies, so every rollout repeats the episode up to its step."""
    session = session_of(full_id("Counting-v0"))
    assert not session.game.has_copies
    yield session
    session.close()


def tried(session: PlaySession, trace: Trace, times: int, lengths: list[int]) -> tuple[list[dict[str, Any]], bool]:
    """At step 3, with the env's length changed after each rollout."""
    env: Any = session.game.env.unwrapped

    def progress(done: int, total: int) -> None:
        env.length = lengths[done - 1]

    return rollouts.roll_out(session, trace, 3, [0, 1], times, "random", None, 0.5, lambda: False, progress)


def played(session: PlaySession) -> Trace:
    trace = session.begin(1, "random")
    list(session.play_out("random"))
    return trace


def test_only_rollouts_that_begin_at_the_moment_count(counting: PlaySession) -> None:
    trace = played(counting)
    rows, exact = tried(counting, trace, 2, [5, 5, 5, 5])
    # 4 and 5 are left at step 3
    assert [(row["n"], row["mean"], row["discounted"]) for row in rows] == [(2, 9.0, 6.5)] * 2
    assert exact
    rows, exact = tried(counting, trace, 2, [5, 5, 2, 2])  # the last one ends before step 3
    assert [(row["n"], row["mean"]) for row in rows] == [(2, 9.0), (1, 9.0)]
    assert not exact
    rows, exact = tried(counting, trace, 1, [2, 2])
    assert [(row["n"], row["mean"]) for row in rows] == [(0, None)] * 2
    assert not exact


def test_rollouts_that_are_cut_are_counted(counting: PlaySession, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = played(counting)
    assert [row["cut"] for row in tried(counting, trace, 2, [5] * 4)[0]] == [0, 0]
    monkeypatch.setattr(rollouts, "MOST_STEPS", 1)
    rows, _ = tried(counting, trace, 2, [5] * 4)
    assert [(row["cut"], row["n"], row["mean"]) for row in rows] == [(2, 2, 4.0)] * 2


def test_rollouts_say_whether_they_were_all_the_same(counting: PlaySession) -> None:
    trace = played(counting)
    assert [row["same"] for row in tried(counting, trace, 2, [5] * 4)[0]] == [True, True]
    assert [row["same"] for row in tried(counting, trace, 2, [5, 6, 6, 6])[0]] == [False, False]  # the second is longer
    assert [row["same"] for row in tried(counting, trace, 1, [6] * 2)[0]] == [False, False]  # one says nothing
