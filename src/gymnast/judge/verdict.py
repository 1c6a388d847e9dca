"""One evaluation of an agent and, where it calls for one, a verdict.

The same function serves the training process and the background, so both find the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.pulse import Pulse
from gymnast.core.seeds import derive_seed
from gymnast.core.tasks import relative
from gymnast.judge.evaluate import Episode, Evaluation, episodes_in_turn, evaluate
from gymnast.judge.evidence import NOTHING_SEEN, Evidence, Range, Returns, error_of, price, weigh
from gymnast.judge.exact import ExactScore, exact_score

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import RunConfig
    from gymnast.envs.tabular.oracle import Table
    from gymnast.envs.types import VecEnv


LOOKS = 1.02  # after so many times as many episodes a verdict looks at them again; each of the first 50


@dataclass(frozen=True)
class Verdict:
    """Whether an agent meets its goals, and its score on episodes that decided nothing where it does."""

    evaluation: Evaluation  # the reported score
    goals: dict[str, float]  # threshold and target, as far as there are any
    shown: tuple[str, ...]  # those that this verdict shows to be met
    policy: str  # greedy or stochastic
    attempts: int  # how many verdicts this run has asked for
    seen: Range  # returns of the run, these among them
    test: Evidence | None = (
        None  # on the highest goal that is shown, else asked for; None: the exact value decides, or none was
    )
    exact: ExactScore | None = None  # of the same policy, where the env's transitions are a table
    fresh: bool = True  # the score is of episodes that decided nothing; a run that goes on has the test's own
    tasks: dict[str, Verdict] = field(default_factory=dict)  # on each of several; the rest is then on the worst of them

    @property
    def score(self) -> float:
        """What is reported: the exact value where there is one, which no lucky episodes can lift."""
        return self.evaluation.mean if self.exact is None else self.exact.value

    @property
    def interval(self) -> tuple[float, float]:
        if not self.tasks:
            return self.evaluation.interval(self.seen, self.test)
        ends = [[relative(end, *own.goals.values()) for end in own.interval] for own in self.tasks.values()]
        return min(low for low, _ in ends), min(high for _, high in ends)


@dataclass(frozen=True)
class EvalRequest:
    """Which moment is evaluated, and for what."""

    step: int  # env steps
    evaluation: int | None  # its number, which its seed comes from; None: only a verdict is called for
    calls: tuple[str, ...] = ()  # goals that the training return calls for a verdict on (`stop.watch: train`)
    seen: Range = NOTHING_SEEN  # returns of the run until then
    tasks: dict[str, Range] = field(default_factory=dict)  # the same by task


@dataclass(frozen=True)
class Allowance:
    """A verdict that may be given: which one of the run it would be, from 1, and on what."""

    number: int  # its episodes are its own
    goals: dict[str, float]
    scores: int = 0  # earlier ones that were only scores: they used up no share of the error

    @property
    def error(self) -> float:
        return error_of(self.number - self.scores)


@dataclass(frozen=True)
class EvalResult:
    """What was found."""

    request: EvalRequest
    scores: dict[str, Evaluation]  # by policy; empty where no evaluation was due
    policy: str | None  # whose evaluation counts
    verdict: Verdict | None
    seconds: float  # that the evaluation took
    exact: ExactScore | None  # of that policy, where the env's transitions are a table
    earlier: dict[str, Evaluation] = field(default_factory=dict)  # of the same agent in earlier stages, by name
    tasks: dict[str, Evaluation] = field(default_factory=dict)  # by that policy, of each of several tasks
    price: float | None = None  # episodes of a verdict that is not given: it may take more than `stop.max_episodes`

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
    goals: dict[str, float]
    pulse: Pulse = field(default_factory=Pulse)  # may break it off
    earlier: Mapping[str, VecEnv] = field(default_factory=dict)  # of the stages before this one, by name
    floor: float | None = None  # the lowest return that the env allows, where it is known
    name: str = ""  # of the stage or task

    @property
    def policy(self) -> str:
        """Whose evaluation counts."""
        evaluated = self.config.eval.policy
        return self.config.stop.judge if evaluated == "both" else evaluated

    def score_earlier(self, seed: int) -> dict[str, Evaluation]:
        """The agent in the stages before this one."""
        scores = {}
        for name, env in self.earlier.items():
            self.pulse.begin("evaluating", self.config.eval.episodes, of=name)
            scores[name] = self._play(self.config.eval.episodes, seed, self.policy, env=env)
        return scores

    def score_stages(self, name: str, seed: int) -> dict[str, Evaluation]:
        """The agent in this stage, whose name is given, and in those before it."""
        self.pulse.begin("evaluating", self.config.eval.episodes, of=name)
        here = self._play(self.config.eval.episodes, seed, self.policy)
        return {**self.score_earlier(seed), name: here}

    def examine(self, request: EvalRequest, allowed: Allowance | None) -> EvalResult:
        """`allowed`: the verdict that may be given if the scores call for one; None: none may."""
        config, began = self.config, perf_counter()
        scores: dict[str, Evaluation] = {}
        earlier: dict[str, Evaluation] = {}
        if request.evaluation is not None:
            seed = derive_seed(config.train.seed, "eval", request.evaluation)
            for policy in ("greedy", "stochastic"):
                if config.eval.policy in (policy, "both"):
                    self.pulse.begin("evaluating", config.eval.episodes, of=self.name)
                    scores[policy] = self._play(config.eval.episodes, seed, policy)
            earlier = self.score_earlier(seed)
        seconds = perf_counter() - began
        main = self.policy if scores else None
        result = EvalResult(request, scores, main, None, seconds, None if main is None else self._exact(main), earlier)
        if allowed is None:
            return result
        watched = result.score if config.stop.watch == "eval" else None
        called = {
            name: goal
            for name, goal in allowed.goals.items()
            if name in request.calls or (watched is not None and watched >= goal)
        }
        seen = replace(request.seen, floor=self.floor)
        for evaluation in scores.values():
            seen = seen.over(evaluation.returns)
        known = scores.get(config.stop.judge)
        before = None if known is None else known.returns
        prices = self.prices(called, before, seen, allowed.error)
        called = {name: goal for name, goal in called.items() if prices[name] <= config.stop.max_episodes}
        if called:
            asked = replace(allowed, goals=called)
            return replace(result, verdict=self.judge(asked, seen, before=before, open_goals=len(allowed.goals)))
        return replace(result, price=min(prices.values(), default=None))

    def prices(self, goals: Mapping[str, float], known: Returns | None, seen: Range, error: float) -> dict[str, float]:
        """How many episodes a verdict on each goal may take, by those of an evaluation; nothing where the exact value
        decides, or where no episode of this policy is known."""
        if known is None or self._exact(self.config.stop.judge) is not None:
            return dict.fromkeys(goals, 0.0)
        return {name: price(known, goal, seen, error) for name, goal in goals.items()}

    def judge(
        self, asked: Allowance, seen: Range, final: bool = False, before: Returns | None = None, open_goals: int = 0
    ) -> Verdict:
        """On episodes that no decision was based on: each verdict has its own.

        `final`: a score is wanted anyway; else it is where the run ends with this verdict, which has shown all of the
        `open_goals`. `before`: what an evaluation of this agent returned.
        """
        stop, exact, test = self.config.stop, self._exact(self.config.stop.judge), None
        shown: tuple[str, ...] = ()
        episodes = None
        seen = replace(seen, floor=self.floor)
        if exact is not None:
            shown = tuple(name for name, goal in asked.goals.items() if exact.value >= goal)
        elif asked.goals:
            shown, test, episodes = self._test(asked, seen, before)
            seen = seen.over(episodes.returns)
        ends = stop.on_solved and 0 < open_goals == len(shown)
        fresh = episodes is None or final or ends or episodes.episodes < stop.episodes
        if episodes is None or fresh:
            episodes = self.score(asked.number)
        seen = seen.over(episodes.returns)
        return Verdict(episodes, self.goals, shown, stop.judge, asked.number, seen, test, exact, fresh)

    def score(self, number: int) -> Evaluation:
        """Episodes that decide nothing: those that decided may have been lucky."""
        self.pulse.begin("score", self.config.stop.episodes, of=self.name)
        seed = derive_seed(self.config.train.seed, "score", number)
        return self._play(self.config.stop.episodes, seed, self.config.stop.judge)

    def _test(
        self, asked: Allowance, seen: Range, before: Returns | None
    ) -> tuple[tuple[str, ...], Evidence, Evaluation]:
        """Fresh episodes one after another, until each goal is shown, missed or given up."""
        stop, played, tests = self.config.stop, list[Episode](), dict[str, Evidence]()
        still, next_look = dict(asked.goals), 1
        self.pulse.begin("verdict", stop.max_episodes, of=self.name)
        for episode in self._verdict_episodes(asked.number):
            played.append(episode)
            if len(played) < min(next_look, stop.max_episodes) and len(played) % stop.episodes:
                continue
            next_look = math.ceil(len(played) * LOOKS)
            returns = np.array([one.record.raw_return for one in played], np.float64)
            for name, goal in still.items():
                tests[name] = weigh(returns, goal, seen, asked.error, before, stop.episodes)
            due = len(played) % stop.episodes == 0  # a few bad episodes at the beginning end no verdict
            still = {
                name: goal
                for name, goal in still.items()
                if not tests[name].shown and not (due and not tests[name].worth_more(stop.max_episodes))
            }
            if not still:
                break
            self.pulse.enough = max(tests[name].enough(stop.episodes, stop.max_episodes) for name in still)
        shown = tuple(name for name, test in tests.items() if test.shown)
        return shown, max(tests.values(), key=lambda test: (test.shown, test.goal)), Evaluation.of(played)

    def _verdict_episodes(self, number: int) -> Iterator[Episode]:
        stop, seed = self.config.stop, derive_seed(self.config.train.seed, "verdict", number)
        return episodes_in_turn(self.net, self.env, stop.max_episodes, seed, stop.judge == "greedy", self.pulse)

    def _play(self, episodes: int, seed: int, policy: str, env: VecEnv | None = None) -> Evaluation:
        return evaluate(self.net, env or self.env, episodes, seed, policy == "greedy", self.pulse)

    def _exact(self, policy: str) -> ExactScore | None:
        return None if self.table is None else exact_score(self.net, self.table, deterministic=policy == "greedy")


def result_to_json(result: EvalResult) -> dict[str, Any]:
    """What crosses from one process to another; floats survive JSON exactly."""
    data = asdict(replace(result, scores={}, verdict=None, earlier={}, tasks={}))
    data["scores"] = {policy: _to_json(scores) for policy, scores in result.scores.items()}
    data["earlier"] = {stage: _to_json(scores) for stage, scores in result.earlier.items()}
    data["tasks"] = {name: _to_json(scores) for name, scores in result.tasks.items()}
    return data | {"verdict": result.verdict and _verdict_to_json(result.verdict)}


def result_from_json(data: Mapping[str, Any]) -> EvalResult:
    scores = {policy: _from_json(scores) for policy, scores in data["scores"].items()}
    tasks = {name: _from_json(scores) for name, scores in data["tasks"].items()}
    exact = data["exact"] and ExactScore(**data["exact"])
    earlier = {stage: _from_json(scores) for stage, scores in data["earlier"].items()}
    verdict = data["verdict"] and _verdict_from_json(data["verdict"])
    request = request_from_json(data["request"])
    policy, seconds, price = data["policy"], data["seconds"], data["price"]
    return EvalResult(request, scores, policy, verdict, seconds, exact, earlier, tasks, price)


def request_from_json(data: Mapping[str, Any]) -> EvalRequest:
    tasks = {name: Range(**seen) for name, seen in data.get("tasks", {}).items()}  # not in older checkpoints
    return EvalRequest(**{**data, "calls": tuple(data["calls"]), "seen": Range(**data["seen"]), "tasks": tasks})


def _verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    data = asdict(replace(verdict, tasks={})) | {"evaluation": _to_json(verdict.evaluation)}
    return data | {"tasks": {name: _verdict_to_json(own) for name, own in verdict.tasks.items()}}


def _verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    return Verdict(
        **{
            **data,
            "evaluation": _from_json(data["evaluation"]),
            "shown": tuple(data["shown"]),
            "seen": Range(**data["seen"]),
            "test": data["test"] and Evidence(**data["test"]),
            "exact": data["exact"] and ExactScore(**data["exact"]),
            "tasks": {name: _verdict_from_json(own) for name, own in data["tasks"].items()},
        }
    )


def _to_json(scores: Evaluation) -> dict[str, Any]:
    return {name: numbers.tolist() for name, numbers in vars(scores).items()}


def _from_json(data: Mapping[str, Any]) -> Evaluation:
    returns, lengths, prints = (data[name] for name in ("returns", "lengths", "prints"))
    return Evaluation(np.array(returns, np.float64), np.array(lengths, np.int64), np.array(prints, np.uint64))
