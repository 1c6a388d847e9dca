"""The parts of autotune, on paper: budgets, what may be advised, comparisons, the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gymnast import config as configs
from gymnast.alerts.advice import Known, Origin
from gymnast.alerts.alert import Alert
from gymnast.core.errors import UserError
from gymnast.verbs.autotune.advice import ALERT, LADDER, USUAL, Advice, Diagnosis, diagnose, is_allowed
from gymnast.verbs.autotune.budget import parse_budget
from gymnast.verbs.autotune.journal import Journal
from gymnast.verbs.autotune.segment import Outcome
from gymnast.verbs.autotune.tuner import BETTER, OPEN, WORSE, compare, judged


@pytest.mark.parametrize(
    ("text", "steps", "seconds"),
    [
        ("500000", 500_000, None),
        ("500_000", 500_000, None),
        ("500k", 500_000, None),
        ("2M", 2_000_000, None),
        ("1.5M", 1_500_000, None),
        ("90s", None, 90.0),
        ("20m", None, 1200.0),
        ("20min", None, 1200.0),
        ("1.5h", None, 5400.0),
    ],
)
def test_budgets(text: str, steps: int | None, seconds: float | None) -> None:
    budget = parse_budget(text)
    assert (budget.steps, budget.seconds) == (steps, seconds)


@pytest.mark.parametrize("text", ["", "much", "-5", "0", "0k", "0.5", "2MM", "20 minutes", "nan", "inf", "1e6", "5d"])
def test_what_is_no_budget_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match="20m, 90s or 2h, or env steps like 500k or 2M") as refused:
        parse_budget(text)
    assert "\n" not in str(refused.value)


def test_a_budget_is_spent_in_its_own_unit() -> None:
    steps, seconds = parse_budget("100"), parse_budget("10s")
    for budget in (steps, seconds):
        budget.use(60, 5.0)
        assert not budget.spent
        budget.use(40, 1.0)
    assert steps.spent
    assert not seconds.spent


def test_nothing_changes_what_solved_means() -> None:
    assert is_allowed({"algo.gamma": 0.99})
    assert is_allowed({"env.reward.scale": 1.0})
    assert is_allowed({"env.max_episode_steps": None})  # the env's own
    assert not is_allowed({"env.max_episode_steps": 1000})
    assert not is_allowed({"stop.judge": "stochastic", "eval.policy": "both"})
    assert not is_allowed({"algo.gamma": 0.99, "stop.threshold": 10})
    assert not is_allowed({"env.kwargs.gravity": 1})
    assert not is_allowed({})


def alert(rule: str, patch: dict[str, Any], **changes: Any) -> Alert:
    facts = {"severity": "warning", "since": 1, "last": 1, "count": 1, "firing": True, "message": "m", "cause": "c"}
    return Alert(rule=rule, patch=patch, **{**facts, **changes})


def known(*settings: str) -> Known:
    resolved = configs.load("CartPole-v1", settings)
    return Known(resolved.config, resolved.facts, 475, 0.6931, Origin("CartPole-v1", settings))


def test_alerts_come_first_then_what_is_usual_then_the_ladder() -> None:
    about = known("algo.gamma=0.5", "algo.gae_lambda=0.2")
    alerts = [
        alert("kl_high", {"algo.learning_rate": 1e-4}),
        alert("horizon_short", {"algo.gamma": 0.99}),
        alert("plateau", {"train.total_timesteps": 200_000}, severity="info"),  # the tuner itself trains longer
        alert("greedy_below_training", {"stop.judge": "stochastic"}),
    ]
    found = diagnose(alerts, about, {"train/approx_kl": 1e-5, "rollout/ep_len_mean": 20.0})
    assert not found.broken
    first = [(one.kind, one.text) for one in found.advice[:4]]
    assert first == [
        (ALERT, "algo.learning_rate=0.0001"),
        (ALERT, "algo.gamma=0.99"),
        (USUAL, "algo.gae_lambda=0.9"),  # gamma is advised already
        (USUAL, "algo.gamma=0.99 algo.gae_lambda=0.9"),
    ]
    ladder = [one for one in found.advice if one.kind == LADDER]
    assert ladder[0].text == "algo.learning_rate=lin_0.01"  # 5 times 0.003, but at most 0.01: the KL is tiny
    assert all(is_allowed(one.patch) for one in found.advice)
    assert len({one.text for one in found.advice}) == len(found.advice)


def test_a_damaged_agent_is_not_repaired_but_replaced() -> None:
    about = known("algo.learning_rate=1.0")
    found = diagnose([alert("entropy_collapse", {"algo.learning_rate": "lin_0.003"})], about, {})
    assert found.broken
    assert found.advice[0].fresh
    switch = diagnose([alert("kl_high", {"agent.normalize_obs": True})], about, {})
    assert not switch.broken
    assert switch.advice[0].fresh  # its weights are made for what it saw


def outcome(returns: list[float], exact: bool = False, firing: tuple[str, ...] = (), solved: bool = False) -> Outcome:
    return Outcome("r", 10, 100, 10, 1.0, "reached", solved, returns, exact, Diagnosis(firing=list(firing)), {})


def test_comparisons() -> None:
    low, high = [9.0, 10.0, 11.0] * 10, [19.0, 20.0, 21.0] * 10
    result, least, most = compare(outcome(low), outcome(high))
    assert result == BETTER
    assert least is not None
    assert most is not None
    assert 9 < least < 10 < most < 11  # the means differ by 10, with a standard error of 0.2
    assert compare(outcome(high), outcome(low))[0] == WORSE
    assert compare(outcome(low), outcome(low))[0] == OPEN
    assert compare(outcome([]), outcome(low)) == (BETTER, None, None)  # not a number as it was
    assert compare(outcome(low), outcome([])) == (WORSE, None, None)
    assert compare(outcome([0.5], exact=True), outcome([0.6], exact=True))[0] == BETTER
    assert compare(outcome([0.6], exact=True), outcome([0.6], exact=True))[0] == OPEN


def test_what_is_kept_where_scores_do_not_tell() -> None:
    rule = Advice(ALERT, {"algo.gamma": 0.9}, "", rule="horizon_short")
    alike, silent = outcome([1.0, 2.0], firing=("horizon_short",)), outcome([1.0, 2.0])
    assert judged(OPEN, rule, alike, silent) == (True, "no clear difference, and horizon_short is gone")
    assert judged(OPEN, rule, alike, alike) == (False, "no clear difference")
    assert judged(WORSE, rule, alike, silent) == (False, "clearly worse")
    assert judged(WORSE, rule, alike, outcome([0.0], solved=True)) == (True, "solved")
    usual, guess = Advice(USUAL, {"algo.gamma": 0.9}, ""), Advice(LADDER, {"algo.gamma": 0.9}, "")
    assert judged(OPEN, usual, silent, outcome([1.5, 2.0]))[0]
    assert not judged(OPEN, usual, silent, outcome([1.0, 1.9]))[0]
    assert not judged(OPEN, guess, silent, outcome([1.5, 2.0]))[0]


def test_a_journal_recalls_what_it_has_and_forgets_half_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(UserError, match="another process"):
        Journal(tmp_path)
    journal.write("start", target="x")
    journal.write("begin", asked=1)
    journal.write("end", solved=False)
    journal.close()
    with journal.path.open("ab") as file:
        file.write(b'{"kind": "segm')
    again = Journal(tmp_path)  # an end may be followed by more, with a larger budget
    assert [line["kind"] for line in again.lines] == ["start", "begin"]
    assert again.recall("start") == {"kind": "start", "target": "x"}
    with pytest.raises(UserError, match="line 2 does not fit"):
        again.recall("begin", lambda line: line["asked"] == 2)
    assert again.recall("begin") == {"kind": "begin", "asked": 1}
    assert again.recall("segment") is None
    again.once("decision", kept=True)
    again.close()
    assert len(journal.path.read_bytes().splitlines()) == 3
