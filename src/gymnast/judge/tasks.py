"""Several tasks, one agent: each task is evaluated and judged in its own env, and the worst one is the agent's score.

That score is relative: by how much of its threshold the worst task is above it, so that 0 or more means that all tasks
reach theirs. The run is solved when one verdict on one agent shows it for every task. `docs/verdicts.md` says why the
error is still at most 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.core.pulse import Pulse
from gymnast.core.tasks import ALL_SOLVED, relative
from gymnast.envs.suites import find_spec
from gymnast.judge.evaluate import Evaluation
from gymnast.judge.evidence import NOTHING_SEEN, Range, Returns
from gymnast.judge.judge import Judge
from gymnast.judge.record import SOLVED, TaskRecord
from gymnast.judge.rows import Row
from gymnast.judge.verdict import Allowance, Court, EvalRequest, EvalResult, Verdict

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import RunConfig
    from gymnast.envs.tasks import TaskEnvs
    from gymnast.envs.types import EpisodeRecord
    from gymnast.judge.snapshot import Snapshot


def task_thresholds(config: RunConfig) -> dict[str, float]:
    """What counts as solved for each task: the config's, that of its env's facts, or the registered one."""
    found: dict[str, float] = {}
    for number, (task, env) in enumerate(zip(config.tasks, config.task_envs, strict=True)):
        facts, key = configs.load_facts(env.id), f"tasks[{number}].threshold"
        threshold = task.threshold
        if threshold is None:
            solved = facts.solved.threshold if facts is not None and facts.solved is not None else None
            threshold = find_spec(env.id).reward_threshold if solved is None else solved
        if threshold is None:
            raise UserError(f"{key}: no threshold is known for {env.id}, and tasks are compared by theirs. Set one.")
        best = None if facts is None else facts.best_return(env)
        if problem := None if best is None else best.problem(threshold, env.id):
            raise UserError(f"{key}: {problem}")
        found[task.name] = threshold
    return found


def task_floors(config: RunConfig) -> dict[str, float | None]:
    """The lowest return that the env of each task allows, where it is known."""
    return {
        task.name: configs.lowest_return(env, task.lowest_return)
        for task, env in zip(config.tasks, config.task_envs, strict=True)
    }


@dataclass(frozen=True)
class TaskCourt:
    """Does what a `Court` does, by one for each task."""

    net: Net
    envs: TaskEnvs
    config: RunConfig
    thresholds: dict[str, float]
    pulse: Pulse = field(default_factory=Pulse)
    seen: Mapping[str, Range] = field(default_factory=dict)  # returns of the run, by task
    floors: Mapping[str, float | None] = field(default_factory=dict)  # the lowest return that each env allows

    def examine(self, request: EvalRequest, allowed: Allowance | None) -> EvalResult:
        found = {
            name: self._of(name).examine(replace(request, seen=request.tasks.get(name, NOTHING_SEEN), tasks={}), None)
            for name in self.thresholds
        }
        policies = next(iter(found.values())).scores
        scores = {p: self._worst({name: one.scores[p] for name, one in found.items()}) for p in policies}
        main = next(iter(found.values())).policy
        raw = {} if main is None else {name: one.scores[main] for name, one in found.items()}
        seconds = sum(one.seconds for one in found.values())
        result = EvalResult(request, scores, main, None, seconds, None, tasks=raw)
        if allowed is None or result.score is None or result.score < ALL_SOLVED:
            return result
        court = replace(self, seen={name: self._seen(name, request, one) for name, one in found.items()})
        judged = self.config.stop.judge
        known = {name: one.scores[judged].returns for name, one in found.items() if judged in one.scores}
        prices = [court.price(name, known.get(name), allowed.error) for name in found]
        if max(prices) > self.config.stop.max_episodes:
            return replace(result, price=max(prices))
        return replace(result, verdict=court.judge(allowed, request.seen, before=known))

    def price(self, name: str, known: Returns | None, error: float) -> float:
        """How many episodes a verdict on that task may take."""
        return self._of(name).prices({SOLVED: self.thresholds[name]}, known, self.seen[name], error)[SOLVED]

    def _seen(self, name: str, request: EvalRequest, found: EvalResult) -> Range:
        seen = replace(request.tasks.get(name, NOTHING_SEEN), floor=self.floors.get(name))
        for evaluation in found.scores.values():
            seen = seen.over(evaluation.returns)
        return seen

    def judge(
        self,
        asked: Allowance,
        seen: Range,
        final: bool = False,
        before: Mapping[str, Returns] | None = None,
    ) -> Verdict:
        """On one agent. In the middle of a run, a task that is not shown to be solved spares the others their test."""
        verdicts: dict[str, Verdict] = {}
        for name, threshold in self.thresholds.items():
            goals, known = {SOLVED: threshold} if asked.goals else {}, (before or {}).get(name)
            own = self._of(name).judge(replace(asked, goals=goals), self.seen.get(name, NOTHING_SEEN), final, known)
            verdicts[name] = own
            if goals and SOLVED not in own.shown and not final:
                break
        all_shown = len(verdicts) == len(self.thresholds) and all(SOLVED in own.shown for own in verdicts.values())
        if all_shown and not final and self.config.stop.on_solved:  # the run ends with this verdict
            verdicts = {
                name: replace(own, evaluation=self._of(name).score(asked.number), fresh=True)
                for name, own in verdicts.items()
            }
        worst = self._worst({name: own.evaluation for name, own in verdicts.items()})
        shown = (SOLVED,) if asked.goals and all_shown else ()
        goals, seen = {SOLVED: ALL_SOLVED}, seen.over(worst.returns)
        fresh = all(own.fresh for own in verdicts.values())
        return Verdict(worst, goals, shown, self.config.stop.judge, asked.number, seen, fresh=fresh, tasks=verdicts)

    def _of(self, name: str) -> Court:
        goals = {SOLVED: self.thresholds[name]}
        floor = self.floors.get(name)
        return Court(self.net, self.envs.vectors[name], None, self.config, goals, self.pulse, floor=floor, name=name)

    def _worst(self, by_task: Mapping[str, Evaluation]) -> Evaluation:
        """Of the worst task, in relative returns."""
        each = (replace(one, returns=relative(one.returns, self.thresholds[name])) for name, one in by_task.items())
        return min(each, key=lambda evaluation: evaluation.mean)


class TaskJudge(Judge):
    """A judge whose scores are relative; what it knows of each task is in the record."""

    thresholds: dict[str, float]

    def begin_tasks(self, thresholds: dict[str, float]) -> TaskJudge:
        self.thresholds = thresholds
        self.record.tasks = {name: TaskRecord(threshold) for name, threshold in thresholds.items()}
        return self

    @property
    def court(self) -> Any:
        seen = {name: task.seen for name, task in self.record.tasks.items()}
        floors = task_floors(self.config)
        return TaskCourt(self.net, self.env, self.config, self.thresholds, self.pulse, seen, floors)  # type: ignore[arg-type]

    def watch(self, episodes: Sequence[EpisodeRecord]) -> None:
        for episode in episodes:
            assert episode.task is not None
            self._see(episode.task, np.array([episode.raw_return], np.float64))

    def take(self, result: EvalResult, snapshot: Snapshot | None) -> tuple[Row, bool]:
        row: Row = {}
        for name, scores in result.tasks.items():
            self._see(name, scores.returns)
            row |= {
                f"eval/mean_reward/{name}": scores.mean,
                f"eval/std_reward/{name}": scores.std,
                f"eval/mean_ep_length/{name}": float(scores.lengths.mean()),
            }
            if self.record.tasks[name].interval is None:
                self.record.tasks[name].score, self.record.tasks[name].episodes = scores.mean, scores.episodes
        joint, new_best = super().take(result, snapshot)
        return joint | row, new_best

    def forget(self) -> None:
        super().forget()
        self.begin_tasks(self.thresholds)

    def load_state(self, tensors: Mapping[str, Any], values: Mapping[str, Any], same_env: bool) -> None:
        super().load_state(tensors, values, same_env)
        if self.record.tasks.keys() != self.thresholds.keys():  # not the same env: nothing is known of these
            self.begin_tasks(self.thresholds)

    def _keep_as_best(self, score: float, high: float, step: int, snapshot: Snapshot | None) -> None:
        """The last verdict asks about every task, also where the worst of them is hopeless."""
        super()._keep_as_best(score, np.inf, step, snapshot)

    def _take_verdict(self, verdict: Verdict, step: int) -> Row:
        row = super()._take_verdict(verdict, step)
        for name, own in verdict.tasks.items():
            task, (low, high) = self.record.tasks[name], own.interval
            task.seen = task.seen.joined(own.seen)
            task.score, task.interval, task.episodes = own.evaluation.mean, (low, high), own.evaluation.episodes
            row |= {f"verdict/mean/{name}": task.score, f"verdict/low/{name}": low, f"verdict/high/{name}": high}
            if own.test is not None:
                task.solved, task.test = SOLVED in own.shown, own.test
                row |= {f"verdict/solved/{name}": float(task.solved), f"verdict/evidence/{name}": own.test.money}
        return row

    def _see(self, name: str, returns: Any) -> None:
        task = self.record.tasks[name]
        task.seen = task.seen.over(returns)
        self.record.seen = self.record.seen.over(relative(returns, self.thresholds[name]))
