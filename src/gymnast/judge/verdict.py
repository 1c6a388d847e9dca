"""One look at an agent: its evaluation and, where that calls for one, its verdict.

The same function serves the training process and the background, so both find the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.seeds import derive_seed
from gymnast.judge.evaluate import Evaluation, Verdict, evaluate
from gymnast.judge.exact import ExactScore, exact_score

if TYPE_CHECKING:
    from gymnast.agent import Agent
    from gymnast.config import RunConfig
    from gymnast.envs.tabular.oracle import Table
    from gymnast.envs.types import VecEnv


@dataclass(frozen=True)
class Look:
    """Which moment is looked at, and for what."""

    step: int  # env steps
    evaluation: int | None  # its number, which its seed comes from; None: only a verdict is called for
    calls: bool  # the training return calls for a verdict (`stop.watch: train`)


@dataclass(frozen=True)
class Report:
    """What was found."""

    look: Look
    scores: dict[str, Evaluation]  # by policy; empty where no evaluation was due
    policy: str | None  # whose evaluation counts
    verdict: Verdict | None
    seconds: float  # that the evaluation took
    exact: ExactScore | None  # of that policy, where the env's transitions are a table

    @property
    def solved(self) -> bool:
        return self.verdict is not None and self.verdict.solved

    @property
    def score(self) -> float | None:
        """What decides: the exact value where there is one, which needs no luck."""
        if self.policy is None:
            return None
        return self.scores[self.policy].mean if self.exact is None else self.exact.value


def examine(
    agent: Agent,
    env: VecEnv,
    table: Table | None,
    config: RunConfig,
    threshold: float | None,
    look: Look,
    verdicts: int | None,
) -> Report:
    """`verdicts`: how many the run has asked for so far; None: no other one may be given now."""
    before = perf_counter()
    scores: dict[str, Evaluation] = {}
    if look.evaluation is not None:
        seed = derive_seed(config.train.seed, "eval", look.evaluation)
        for policy in ("greedy", "stochastic"):
            if config.eval.policy in (policy, "both"):
                scores[policy] = evaluate(agent, env, config.eval.episodes, seed, deterministic=policy == "greedy")
    seconds = perf_counter() - before
    main = config.stop.judge if config.stop.judge in scores else next(iter(scores), None)
    exact = None if table is None or main is None else exact_score(agent, table, deterministic=main == "greedy")
    report = Report(look, scores, main, None, seconds, exact)
    watched = report.score if config.stop.watch == "eval" else None
    calls = look.calls or (watched is not None and threshold is not None and watched >= threshold)
    verdict = judge(agent, env, table, config, threshold, verdicts) if calls and verdicts is not None else None
    return replace(report, verdict=verdict)


def judge(
    agent: Agent, env: VecEnv, table: Table | None, config: RunConfig, threshold: float | None, verdicts: int
) -> Verdict:
    """On episodes that no decision was based on: each verdict has its own."""
    seed = derive_seed(config.train.seed, "verdict", verdicts)
    greedy = config.stop.judge == "greedy"
    scores = evaluate(agent, env, config.stop.episodes, seed, deterministic=greedy)
    exact = None if table is None else exact_score(agent, table, deterministic=greedy)
    return Verdict(scores, threshold, config.stop.judge, verdicts + 1, exact)


def report_to_json(report: Report) -> dict[str, Any]:
    """What crosses from one process to another; floats survive JSON exactly."""
    verdict = report.verdict
    return {
        "look": asdict(report.look),
        "scores": {policy: _to_json(scores) for policy, scores in report.scores.items()},
        "policy": report.policy,
        "verdict": None
        if verdict is None
        else {
            "evaluation": _to_json(verdict.evaluation),
            "threshold": verdict.threshold,
            "policy": verdict.policy,
            "attempts": verdict.attempts,
            "exact": _exact_to_json(verdict.exact),
        },
        "seconds": report.seconds,
        "exact": _exact_to_json(report.exact),
    }


def report_from_json(data: Mapping[str, Any]) -> Report:
    verdict = data["verdict"]
    return Report(
        Look(**data["look"]),
        {policy: _from_json(scores) for policy, scores in data["scores"].items()},
        data["policy"],
        None
        if verdict is None
        else Verdict(
            **verdict | {"evaluation": _from_json(verdict["evaluation"]), "exact": _exact_from_json(verdict["exact"])}
        ),
        data["seconds"],
        _exact_from_json(data["exact"]),
    )


def _to_json(scores: Evaluation) -> dict[str, Any]:
    return {"returns": scores.returns.tolist(), "lengths": scores.lengths.tolist()}


def _from_json(data: Mapping[str, Any]) -> Evaluation:
    return Evaluation(np.array(data["returns"], np.float64), np.array(data["lengths"], np.int64))


def _exact_to_json(exact: ExactScore | None) -> dict[str, float] | None:
    return None if exact is None else asdict(exact)


def _exact_from_json(data: Mapping[str, float] | None) -> ExactScore | None:
    return None if data is None else ExactScore(**data)
