"""One evaluation of an agent and, where it calls for one, a verdict.

The same function serves the training process and the background, so both find the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.seeds import derive_seed
from gymnast.judge.evaluate import Evaluation, evaluate
from gymnast.judge.exact import ExactScore, exact_score

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import RunConfig
    from gymnast.envs.tabular.oracle import Table
    from gymnast.envs.types import VecEnv


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
        """What is compared with the threshold: the exact value where there is one, which no lucky episodes can lift."""
        return self.evaluation.mean if self.exact is None else self.exact.value

    @property
    def solved(self) -> bool:
        return self.threshold is not None and self.score >= self.threshold


@dataclass(frozen=True)
class EvalRequest:
    """Which moment is evaluated, and for what."""

    step: int  # env steps
    evaluation: int | None  # its number, which its seed comes from; None: only a verdict is called for
    calls: bool  # the training return calls for a verdict (`stop.watch: train`)


@dataclass(frozen=True)
class EvalResult:
    """What was found."""

    request: EvalRequest
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


@dataclass(frozen=True)
class Court:
    """What it takes to judge an agent: the network that acts for it, envs, and the rules."""

    net: Net
    env: VecEnv
    table: Table | None
    config: RunConfig
    threshold: float | None

    def examine(self, request: EvalRequest, verdicts: int | None) -> EvalResult:
        """`verdicts`: how many the run has asked for so far; None: no other one may be given now."""
        config, before = self.config, perf_counter()
        scores: dict[str, Evaluation] = {}
        if request.evaluation is not None:
            seed = derive_seed(config.train.seed, "eval", request.evaluation)
            for policy in ("greedy", "stochastic"):
                if config.eval.policy in (policy, "both"):
                    scores[policy] = self._play(config.eval.episodes, seed, policy)
        seconds = perf_counter() - before
        main = config.stop.judge if config.stop.judge in scores else next(iter(scores), None)
        result = EvalResult(request, scores, main, None, seconds, None if main is None else self._exact(main))
        watched = result.score if config.stop.watch == "eval" else None
        calls = request.calls or (watched is not None and self.threshold is not None and watched >= self.threshold)
        return replace(result, verdict=self.judge(verdicts)) if calls and verdicts is not None else result

    def judge(self, verdicts: int) -> Verdict:
        """On episodes that no decision was based on: each verdict has its own."""
        policy, seed = self.config.stop.judge, derive_seed(self.config.train.seed, "verdict", verdicts)
        scores = self._play(self.config.stop.episodes, seed, policy)
        return Verdict(scores, self.threshold, policy, verdicts + 1, self._exact(policy))

    def _play(self, episodes: int, seed: int, policy: str) -> Evaluation:
        return evaluate(self.net, self.env, episodes, seed, deterministic=policy == "greedy")

    def _exact(self, policy: str) -> ExactScore | None:
        return None if self.table is None else exact_score(self.net, self.table, deterministic=policy == "greedy")


def result_to_json(result: EvalResult) -> dict[str, Any]:
    """What crosses from one process to another; floats survive JSON exactly."""
    data = asdict(replace(result, scores={}, verdict=None))
    data["scores"] = {policy: _to_json(scores) for policy, scores in result.scores.items()}
    if result.verdict is not None:
        verdict = result.verdict
        data["verdict"] = vars(verdict) | {
            "evaluation": _to_json(verdict.evaluation),
            "exact": None if verdict.exact is None else asdict(verdict.exact),
        }
    return data


def result_from_json(data: Mapping[str, Any]) -> EvalResult:
    def exact(values: Mapping[str, float] | None) -> ExactScore | None:
        return None if values is None else ExactScore(**values)

    verdict = data["verdict"]
    if verdict is not None:
        verdict = Verdict(
            **verdict | {"evaluation": _from_json(verdict["evaluation"]), "exact": exact(verdict["exact"])}
        )
    scores = {policy: _from_json(scores) for policy, scores in data["scores"].items()}
    request = EvalRequest(**data["request"])
    return EvalResult(request, scores, data["policy"], verdict, data["seconds"], exact(data["exact"]))


def _to_json(scores: Evaluation) -> dict[str, Any]:
    return {"returns": scores.returns.tolist(), "lengths": scores.lengths.tolist()}


def _from_json(data: Mapping[str, Any]) -> Evaluation:
    return Evaluation(np.array(data["returns"], np.float64), np.array(data["lengths"], np.int64))
