"""When an agent is evaluated, what is made of a result, and which agent is the best so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor

from gymnast.core.schedule import Every
from gymnast.judge.background import Background
from gymnast.judge.snapshot import Snapshot, load_snapshots, save_snapshots
from gymnast.judge.verdict import Court, EvalRequest, EvalResult, Verdict

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import RunConfig
    from gymnast.envs.tabular.oracle import Table
    from gymnast.envs.types import VecEnv

Row = dict[str, float]
Weights = dict[str, Tensor]


@dataclass
class Record:
    """What a run knows of its evaluations and verdicts; all of it is part of a checkpoint."""

    evaluations: int = 0
    next_evaluation: int = 0  # env steps
    verdicts: int = 0
    next_verdict: int = 0  # env steps
    best_score: float | None = None
    best_at: int = 0  # env steps
    since_best: int = 0  # evaluations
    solved: bool = False


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
    ) -> None:
        self.config, self.threshold, self.net, self.table = config, threshold, net, table
        self.make_env = make_env
        self.record = Record()
        self.best_agent: Weights | None = None
        self.waiting: list[Snapshot] = []  # copies that the background has not reported on yet, oldest first
        self.background = Background(config, threshold, can_leave_process)
        self._due: EvalRequest | None = None

    @cached_property
    def env(self) -> VecEnv:
        """Built on first use, exactly as the training env is, less wrappers that call themselves training-only."""
        return self.make_env()

    @property
    def court(self) -> Court:
        return Court(self.net, self.env, self.table, self.config, self.threshold)

    @property
    def is_solved(self) -> bool:
        return self.record.solved

    @property
    def on_plateau(self) -> bool:
        plateau = self.config.stop.plateau
        return plateau is not None and self.record.since_best >= plateau.evals

    @property
    def judges_at_the_end(self) -> bool:
        """A run that neither evaluates nor asks whether it is solved does not pay for a verdict either."""
        return self.config.eval_every > 0 or self.config.stop.on_solved

    def plan(self, step: int) -> None:
        """When the next evaluation is due, by the config and from where the run stands."""
        every = Every(self.config.eval_every)
        every.done(step)
        self.record.next_evaluation = max(every.next, self.config.eval.warmup)

    # In the order in which the loop calls them

    def begin(self, step: int, train_score: float | None, ending: bool) -> tuple[EvalRequest | None, bool]:
        """What is due at this step, now counted as done; and whether it is left to the background."""
        number = None
        if self._evaluation_due(step, train_score, ending):
            number = self.record.evaluations
            self.record.evaluations += 1
            every = Every(self.config.eval_every)
            every.done(step)
            self.record.next_evaluation = every.next
        watched = train_score if self.config.stop.watch == "train" else None
        calls = watched is not None and self.threshold is not None and watched >= self.threshold
        calls = calls and self._verdict_allowed(step)
        if calls:
            self._postpone_verdicts(step)
        request = EvalRequest(step, number, calls) if number is not None or calls else None
        later = request is not None and not ending and self.background.is_on
        self._due = None if later else request
        return request, later

    def poll(self, ending: bool) -> tuple[EvalResult, Snapshot | None] | None:
        """The next result that is there: of an earlier copy, or of this moment (no copy); None: no more for now.

        At the end of a run all of them are there: what the background has not got to is evaluated here, which is
        quicker. Nothing else waits for it, however little time it gets on a busy machine.
        """
        if self.waiting:
            found = self.background.hear(self.waiting, self._allowance, ending)
            if found is None and self.background.may_wait(self.waiting) and not ending:
                return None
            snapshot = self.waiting.pop(0)
            return found or self._examine(snapshot.request, snapshot.agent), snapshot
        if self._due is None:
            return None
        request, self._due = self._due, None
        return self._examine(request, None), None

    def take(self, result: EvalResult, snapshot: Snapshot | None) -> tuple[Row, bool]:
        """Books a result on a copy, or on this moment: what there is to report, and whether it is the best so far."""
        record, step = self.record, result.request.step
        row: Row = {}
        new_best = False
        if result.policy is not None and result.score is not None:
            score, plateau = result.score, self.config.stop.plateau
            margin = plateau.min_delta if plateau else 0.0
            improved = record.best_score is None or score > record.best_score + margin
            record.since_best = 0 if improved else record.since_best + 1
            # Of two equal samples the later agent is the likelier better one; of two equal exact values neither is.
            equal = score == record.best_score and result.exact is None
            new_best = record.best_score is None or score > record.best_score or equal
            if new_best:
                self._keep_as_best(score, step, snapshot)
            row |= _evaluation_row(result, score if record.best_score is None else record.best_score)
        if result.verdict is not None:
            row |= self._take_verdict(result.verdict, step)
            self._postpone_verdicts(step)
            if result.solved:
                self._keep_as_best(result.verdict.score, step, snapshot)
                new_best = True
        return row, new_best

    def hand_over(self, snapshot: Snapshot) -> None:
        """Leaves a copy to the background; it is evaluated after those before it."""
        self.waiting.append(snapshot)
        self.background.give_next(self.waiting, self._allowance)

    def finish(self, step: int) -> tuple[Verdict, Row]:
        """A verdict on the best agent of the run, which is the one a user will take."""
        with self._as_it_was(self.best_agent):
            verdict = self.court.judge(self.record.verdicts)
        row = self._take_verdict(verdict, step if self.best_agent is None else self.record.best_at)
        self._postpone_verdicts(step)
        return verdict, row

    # State

    def forget(self) -> None:
        """Another run of the same agent begins."""
        self.record, self.best_agent, self.waiting = Record(), None, []

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, waiting = save_snapshots(self.waiting)
        if self.best_agent is not None:
            tensors |= {f"best/{name}": tensor for name, tensor in self.best_agent.items()}
        return tensors, asdict(self.record) | {"waiting": waiting}

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], same_env: bool) -> None:
        """A score in another env says nothing about this one."""
        self.record = Record(**{name: value for name, value in values.items() if name != "waiting"})
        if same_env:
            best = {key.removeprefix("best/"): tensor for key, tensor in tensors.items() if key.startswith("best/")}
            self.best_agent = best or None
            self.waiting = load_snapshots(tensors, values["waiting"])
        else:
            self.record = replace(self.record, best_score=None, since_best=0)

    def open(self, warn: Callable[[str], None]) -> Self:
        self.background.open(warn)
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

    # Inside

    def _evaluation_due(self, step: int, train_score: float | None, ending: bool) -> bool:
        """By env steps, not before the training return has reached `eval.start_level`; and always at the end."""
        if self.config.eval_every == 0:
            return False
        if ending:
            return True
        if step < self.record.next_evaluation:
            return False
        level = self.config.eval.start_level
        return level is None or (train_score is not None and train_score >= level)

    def _verdict_allowed(self, step: int, calls: bool = False) -> bool:
        """Not after one that said solved, and not twice between two evaluations."""
        return not self.record.solved and (step >= self.record.next_verdict or calls)

    def _allowance(self, request: EvalRequest) -> int | None:
        """How many verdicts there were before this one; None: there may be none now."""
        return self.record.verdicts if self._verdict_allowed(request.step, request.calls) else None

    def _postpone_verdicts(self, step: int) -> None:
        """One was called for at that step: no other before the next evaluation is due."""
        every = Every(self.config.eval_every or self.config.rollout_steps)
        every.done(step)
        self.record.next_verdict = max(self.record.next_verdict, every.next)

    def _examine(self, request: EvalRequest, weights: Weights | None) -> EvalResult:
        with self._as_it_was(weights):
            return self.court.examine(request, self._allowance(request))

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

    def _keep_as_best(self, score: float, step: int, snapshot: Snapshot | None) -> None:
        self.record.best_score, self.record.best_at = score, step
        weights = self.net.agent.state_dict() if snapshot is None else snapshot.agent
        self.best_agent = {name: tensor.detach().clone() for name, tensor in weights.items()}

    def _take_verdict(self, verdict: Verdict, step: int) -> Row:
        self.record.verdicts = verdict.attempts
        self.record.solved = self.record.solved or verdict.solved
        scores = verdict.evaluation
        low, high = scores.interval()
        row = {
            "verdict/step": float(step),
            "verdict/mean": scores.mean,
            "verdict/low": low,
            "verdict/high": high,
            "verdict/episodes": float(scores.episodes),
            "verdict/attempts": float(verdict.attempts),
        }
        if verdict.exact is not None:
            row |= {"verdict/exact_value": verdict.exact.value, "verdict/regret": verdict.exact.regret}
        return row if verdict.threshold is None else row | {"verdict/threshold": verdict.threshold}


def _evaluation_row(result: EvalResult, best: float) -> Row:
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
    if "stochastic" in result.scores:
        stochastic = result.scores["stochastic"]
        row |= {"eval/stochastic_mean_reward": stochastic.mean, "eval/stochastic_std_reward": stochastic.std}
    return row
