"""When an agent is evaluated, what is made of a result, and which agent is the best so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from torch import Tensor

from gymnast.agent.agent import not_finite
from gymnast.core.pulse import Pulse
from gymnast.core.schedule import Every
from gymnast.core.seeds import derive_seed
from gymnast.core.typed import typed
from gymnast.judge.background import Background
from gymnast.judge.evaluate import Evaluation
from gymnast.judge.evidence import NOTHING_SEEN, Returns
from gymnast.judge.record import RECORD, SOLVED, TARGET, Record
from gymnast.judge.rows import Row, evaluation_row, verdict_row
from gymnast.judge.snapshot import Snapshot, load_snapshots, save_snapshots
from gymnast.judge.stages import NO_STAGES, Stage, StageEnd, stage_row
from gymnast.judge.verdict import Allowance, Court, EvalRequest, EvalResult, Verdict

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import EnvConfig, RunConfig
    from gymnast.envs.tabular.oracle import Table
    from gymnast.envs.types import EpisodeRecord, VecEnv

Weights = dict[str, Tensor]
SOON = 20  # training episodes whose mean return is compared with `eval.start_level`: a new stage has few of its own


class Judge:
    """`begin` says what is due at a step, `poll` gives one result after another, `take` books it, `finish` ends."""

    def __init__(
        self,
        config: RunConfig,
        threshold: float | None,
        net: Net,
        table: Table | None,
        make_env: Callable[[], VecEnv],
        can_leave_process: bool = True,
        endless: bool = False,
        pulse: Pulse | None = None,
        stage: Stage = NO_STAGES,
        make_earlier: Callable[[EnvConfig], VecEnv] | None = None,
        floor: float | None = None,
    ) -> None:
        self.config, self.threshold, self.net, self.table = config, threshold, net, table
        self.stage, self._make_earlier = stage, make_earlier
        self.make_env, self.endless, self.floor = make_env, endless, floor
        self.record = Record()
        self.best_agent: Weights | None = None
        self.waiting: list[Snapshot] = []  # copies that the background has not reported on yet, oldest first
        self.background = Background(config, self.goals, can_leave_process, stage)
        self.pulse = pulse or Pulse()
        self._warn: Callable[[str], None] | None = None

    @cached_property
    def env(self) -> VecEnv:
        """Built on first use, exactly as the training env is, less wrappers that call themselves training-only."""
        return self.make_env()

    @cached_property
    def earlier(self) -> dict[str, VecEnv]:
        """Those of the stages before this one, built in the same way."""
        if self._make_earlier is None:
            return {}
        scored = {name for name, end in self.record.stage_ends.items() if end.score is not None}
        return {name: self._make_earlier(env) for name, env in self.stage.earlier.items() if name in scored}

    @property
    def court(self) -> Court:
        return Court(
            self.net,
            self.env,
            self.table,
            self.config,
            self.goals,
            self.pulse,
            self.earlier,
            self.floor,
            self.stage.name,
        )

    @property
    def goals(self) -> dict[str, float]:
        """What a verdict may be about: "solved" is the env's threshold, the target is what training goes on for. Only
        the last stage has any."""
        if not self.stage.is_last:
            return {}
        goals = {} if self.threshold is None else {SOLVED: self.threshold}
        return goals if self.target is None else goals | {TARGET: self.target}

    @property
    def target(self) -> float | None:
        """One that is not above the threshold is reached with it."""
        target = self.config.stop.target
        return None if target is None or target <= (-math.inf if self.threshold is None else self.threshold) else target

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to ask: the target is reached or, where there is none, the env is solved."""
        return bool(self.goals) and not self._open_goals()

    @property
    def on_plateau(self) -> bool:
        plateau = self.config.stop.plateau
        return plateau is not None and self.record.since_best >= plateau.evals

    @property
    def judges_at_the_end(self) -> bool:
        """A run that neither evaluates nor asks whether it is solved does not pay for a verdict either. Where the
        training diverged before any evaluation, there is no agent to give one on."""
        wanted = self.config.eval_every > 0 or self.config.stop.on_solved
        return wanted and not self._waits_for_an_end and (self.best_agent is not None or self.net.agent.is_finite)

    def plan(self, step: int) -> None:
        """When the next evaluation is due, by the config and from where the run stands."""
        every = Every(self.config.eval_every)
        every.done(step)
        self.record.next_evaluation = max(every.next, self.config.eval.warmup)

    # In the order in which the loop calls them

    def watch(self, episodes: Sequence[EpisodeRecord]) -> None:
        """Training episodes have ended: how low and high returns can get, where scores are of the same env."""
        if episodes and self.config.evaluated_on is None:
            self._widen(np.array([episode.raw_return for episode in episodes], np.float64))

    def _widen(self, returns: Returns) -> None:
        """The range of returns; a floor that is none is named once."""
        before, self.record.seen = self.record.seen, self.record.seen.over(returns)
        low, floor = self.record.seen.low, self.floor
        if self._warn is not None and floor is not None and low < floor <= before.low:
            self._warn(
                f"an episode returned {low:g}, below the lowest return that was known ({floor:g}): verdicts assume a "
                f"guess from the returns instead. Use stop.lowest_return={low:g} or less."
            )

    def begin(
        self, step: int, train_score: float | None, recent: float | None, ending: bool, again: bool = False
    ) -> tuple[EvalRequest | None, bool]:
        """What is due at this step, now counted as done; and whether it is left to the background.

        `train_score`: mean return of training; `recent`: the same as soon as `SOON` episodes have ended; `again`: it
        was begun before, and broken off.
        """
        if again:
            return self.record.due, False
        due = self._evaluation_due(step, recent, ending)
        calls: tuple[str, ...] = ()
        if self.config.stop.watch == "train" and train_score is not None and step >= self.record.next_verdict:
            calls = tuple(name for name, goal in self._open_goals().items() if train_score >= goal)
        if (due or calls) and not self.net.agent.is_finite:  # its training has diverged: no score of it may count
            due, calls = False, ()
        number = None
        if due:
            number = self.record.evaluations
            self.record.evaluations += 1
            every = Every(self.config.eval_every)
            every.done(step)
            self.record.next_evaluation = every.next
        if calls:
            self._postpone_verdicts(step)
        asked = number is not None or calls
        by_task = {name: task.seen for name, task in self.record.tasks.items()}
        request = EvalRequest(step, number, calls, self.record.seen, by_task) if asked else None
        later = request is not None and not ending and self.background.is_on
        self.record.due = None if later else request
        return request, later

    def poll(self, ending: bool) -> tuple[EvalResult, Snapshot | None] | None:
        """The next result that is there: of an earlier copy, or of this moment (no copy); None: no more for now.

        At the end of a run all of them are there: what the background has not got to is evaluated here, which is
        quicker. Nothing else waits for it, however little time it gets on a busy machine.
        """
        if self.waiting:
            found = self.background.hear(self.waiting, self._allow, ending)
            if found is None and self.background.may_wait(self.waiting) and not ending:
                return None
            snapshot = self.waiting[0]
            found = found or self._examine(snapshot.request, snapshot.agent)
            del self.waiting[0]  # not before: an evaluation that is broken off stays to be done
            return found, snapshot
        if self.record.due is None:
            return None
        found = self._examine(self.record.due, None)
        self.record.due = None
        return found, None

    def take(self, result: EvalResult, snapshot: Snapshot | None) -> tuple[Row, bool]:
        """Books a result on a copy, or on this moment: the metrics to report, and whether it is the best so far."""
        record, step = self.record, result.request.step
        row: Row = {}
        new_best = False
        for evaluation in result.scores.values():
            self._widen(evaluation.returns)
        if result.policy is not None and result.score is not None:
            score, plateau = result.score, self.config.stop.plateau
            seen = replace(record.seen, floor=self.floor)
            low, high = (score, score) if result.exact else result.scores[result.policy].interval(seen)
            margin = plateau.min_delta if plateau else 0.0
            improved = record.best_score is None or score > record.best_score + margin
            record.since_best = 0 if improved else record.since_best + 1
            new_best = self._is_better(score, low, exact=result.exact is not None)
            if new_best:
                self._keep_as_best(score, high, step, snapshot)
            record.last_score, record.last_at = score, step
            row |= evaluation_row(result, score if record.best_score is None else record.best_score)
            row |= self._take_stages({**result.earlier, self.stage.name: result.scores[result.policy]})
        if result.verdict is not None:
            row |= self._take_verdict(result.verdict, step)
            self._postpone_verdicts(step)
            if result.verdict.shown:
                self._keep_as_best(result.verdict.score, result.verdict.interval[1], step, snapshot)
                new_best = True
            record.best_judged = record.best_judged or record.best_at == step
        return row, new_best

    def _is_better(self, score: float, low: float, exact: bool) -> bool:
        """Of two equal samples the later agent is the likelier better one; of two equal exact values neither is.

        An agent that a verdict was in favour of gives way only to one that is clearly better: a few lucky episodes are
        no reason to lose it.
        """
        best = self.record.best_score
        if best is None:
            return True
        if exact:
            return score > best
        return low > best if self.record.solved or self.record.on_target else score >= best

    def hand_over(self, snapshot: Snapshot) -> None:
        """Leaves a copy to the background; it is evaluated after those before it."""
        self.waiting.append(snapshot)
        self.background.give_next(self.waiting, self._allow)

    def finish(self, step: int) -> tuple[Verdict, Row]:
        """The score of the run's best agent, which is the one a user will take; and a verdict on it, if it may still
        meet a goal and there was none on it."""
        record = self.record
        judged = record.judged_at == step if self.best_agent is None else record.best_judged
        goals = {} if judged else self._open_goals()
        goals = {name: goal for name, goal in goals.items() if goal <= record.best_high}
        with self._as_it_was(self.best_agent):
            verdict = self.court.judge(self._next_verdict(goals), record.seen, final=True)
        row = self._take_verdict(verdict, step if self.best_agent is None else record.best_at)
        record.scores += not goals
        record.best_judged = self.best_agent is not None
        self._postpone_verdicts(step)
        return verdict, row

    # Stages

    def end_stage(self, step: int) -> Row:
        """The agent's scores in this stage and those before it, on fresh episodes: the ones that ended the stage may
        have been lucky."""
        if self._waits_for_an_end or not self.stage.is_scored or not self.net.agent.is_finite:
            self.record.stage_ends[self.stage.name] = StageEnd(step, None)
            return {}
        scores = self.court.score_stages(self.stage.name, derive_seed(self.config.train.seed, "stage", self.stage.name))
        self.record.stage_ends[self.stage.name] = StageEnd(step, scores[self.stage.name].mean)
        return self._take_stages(scores)

    def succeed(self, before: Judge) -> None:
        """Goes on in the place of the judge of an earlier stage, with a record of its own."""
        old = before.record
        self.record = replace(old.without_results(), stage_ends=old.stage_ends, stage_scores=old.stage_scores)
        self.background.succeed(before.background)
        self._warn = before._warn

    def _take_stages(self, scores: Mapping[str, Evaluation]) -> Row:
        if not self.stage.name:
            return {}
        means = {name: evaluation.mean for name, evaluation in scores.items()}
        self.record.stage_scores |= means
        return stage_row(means, self.record.stage_ends)

    # State

    def forget(self) -> None:
        """Another run of the same agent begins. Its verdicts go on counting: each has episodes and a share of the error
        of its own."""
        self.record = self.record.without_results()
        self.best_agent, self.waiting = None, []

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, waiting = save_snapshots(self.waiting)
        if self.best_agent is not None:
            tensors |= {f"best/{name}": tensor for name, tensor in self.best_agent.items()}
        return tensors, asdict(self.record) | {"waiting": waiting}

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], same_env: bool) -> None:
        """A score in another env says nothing about this one."""
        known = {name: value for name, value in values.items() if name != "waiting"}
        self.record = typed(RECORD, known)
        if same_env:
            best = {key.removeprefix("best/"): tensor for key, tensor in tensors.items() if key.startswith("best/")}
            self.best_agent = best or None
            self.waiting = load_snapshots(tensors, values["waiting"])
            shapes = {name: tensor.shape for name, tensor in self.net.agent.state_dict().items()}
            for weights in filter(None, (best, *(snapshot.agent for snapshot in self.waiting))):
                if {name: tensor.shape for name, tensor in weights.items()} != shapes:
                    raise ValueError("an earlier agent in it has other layers")
                if names := not_finite(weights):
                    raise ValueError(f"an earlier agent in it has weights that are not finite: {names[0]}")
        else:
            kept = {name: getattr(self.record, name) for name in ("next_evaluation", "stage_ends", "stage_scores")}
            self.record = replace(self.record.without_results(), **kept)

    def open(self, warn: Callable[[str], None]) -> Self:
        self.background.open(warn)
        self._warn = warn
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.background.close()

    def close(self) -> None:
        """Ends the evaluation envs, if there are any."""
        if "env" in self.__dict__:
            self.env.close()
            del self.env
        for env in self.__dict__.pop("earlier", {}).values():
            env.close()

    # Inside

    def _evaluation_due(self, step: int, recent: float | None, ending: bool) -> bool:
        """By env steps, not before the training return has reached `eval.start_level`; and at the end, but for a stage
        to warm up in."""
        if self.config.eval_every == 0 or self._waits_for_an_end:
            return False
        if ending:
            return self.stage.is_scored
        if step < self.record.next_evaluation:
            return False
        level = self.config.eval.start_level
        return level is None or (recent is not None and recent >= level)

    @property
    def _waits_for_an_end(self) -> bool:
        """In an env without a time limit, where training has not seen an end yet, an evaluation may never end."""
        return self.endless and self.record.seen == NOTHING_SEEN and self.table is None

    def _open_goals(self) -> dict[str, float]:
        """Those that no verdict has shown to be met."""
        met = {SOLVED: self.record.solved, TARGET: self.record.on_target}
        return {name: goal for name, goal in self.goals.items() if not met[name]}

    def _allow(self, request: EvalRequest) -> Allowance | None:
        """Not twice between two evaluations, and not on what was shown before."""
        goals = self._open_goals()
        if not goals or (request.step < self.record.next_verdict and not request.calls):
            return None
        return self._next_verdict(goals)

    def _next_verdict(self, goals: dict[str, float]) -> Allowance:
        return Allowance(self.record.verdicts + 1, goals, self.record.scores)

    def _postpone_verdicts(self, step: int) -> None:
        """One was called for at that step: no other before the next evaluation is due."""
        every = Every(self.config.eval_every or self.config.rollout_steps)
        every.done(step)
        self.record.next_verdict = max(self.record.next_verdict, every.next)

    def _examine(self, request: EvalRequest, weights: Weights | None) -> EvalResult:
        with self._as_it_was(weights):
            return self.court.examine(request, self._allow(request))

    @contextmanager
    def _as_it_was(self, weights: Weights | None) -> Iterator[None]:
        """The agent with earlier weights; None: as it is."""
        if weights is None:
            yield
            return
        agent = self.net.agent
        current = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
        agent.load_state_dict(weights)
        try:
            yield
        finally:
            agent.load_state_dict(current)

    def _keep_as_best(self, score: float, high: float, step: int, snapshot: Snapshot | None) -> None:
        record = self.record
        record.best_score, record.best_high, record.best_at, record.best_judged = score, high, step, False
        weights = self.net.agent.state_dict() if snapshot is None else snapshot.agent
        self.best_agent = {name: tensor.detach().clone() for name, tensor in weights.items()}

    def _take_verdict(self, verdict: Verdict, step: int) -> Row:
        record = self.record
        record.verdicts, record.judged_at = verdict.attempts, step
        record.seen = record.seen.joined(verdict.seen)  # training has gone on since a verdict in the background began
        record.solved = record.solved or SOLVED in verdict.shown
        record.on_target = record.on_target or TARGET in verdict.shown
        if verdict.test is not None and (verdict.shown or record.test is None or not record.test.shown):
            record.test = verdict.test
        return verdict_row(verdict, step, self.goals)
