"""The metrics of an evaluation and of a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gymnast.judge.record import SOLVED, TARGET
from gymnast.judge.verdict import EvalResult, Verdict

Row = dict[str, float]


def evaluation_row(result: EvalResult, best: float) -> Row:
    assert result.policy is not None
    scores = result.scores[result.policy]
    row = {
        "eval/step": float(result.request.step),
        "eval/mean_reward": scores.mean,
        "eval/std_reward": scores.std,
        "eval/mean_ep_length": float(scores.lengths.mean()),
        "eval/episodes": float(scores.episodes),
        "eval/seconds": result.seconds,
        "eval/best_mean_reward": best,
    }
    if result.exact is not None:
        row |= {"eval/exact_value": result.exact.value, "eval/regret": result.exact.regret}
    if result.price is not None and math.isfinite(result.price):
        row["eval/verdict_price"] = result.price
    if "stochastic" in result.scores:
        stochastic = result.scores["stochastic"]
        row |= {"eval/stochastic_mean_reward": stochastic.mean, "eval/stochastic_std_reward": stochastic.std}
    return row


def verdict_row(verdict: Verdict, step: int, goals: Mapping[str, float]) -> Row:
    low, high = verdict.interval
    row = {
        "verdict/step": float(step),
        "verdict/mean": verdict.evaluation.mean,
        "verdict/low": low,
        "verdict/high": high,
        "verdict/episodes": float(verdict.evaluation.episodes),
        "verdict/distinct": float(verdict.evaluation.distinct),
        "verdict/fresh": float(verdict.fresh),
        "verdict/attempts": float(verdict.attempts),
    }
    if (test := verdict.test) is not None:
        row |= {
            "verdict/test_mean": test.mean,
            "verdict/test_episodes": float(test.episodes),
            "verdict/evidence": test.money,
            "verdict/evidence_needed": test.needed,
            "verdict/lowest_return": test.worst,
        }
    if verdict.exact is not None:
        row |= {"verdict/exact_value": verdict.exact.value, "verdict/regret": verdict.exact.regret}
    names = {SOLVED: "verdict/threshold", TARGET: "verdict/target"}
    return row | {names[name]: goal for name, goal in goals.items()}
