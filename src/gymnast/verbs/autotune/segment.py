"""A stretch of training: an ordinary run, from where it is to a step, an alert, a standstill or a verdict."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gymnast.core.errors import Stopped
from gymnast.core.seeds import derive_seed
from gymnast.core.text import setting as as_text
from gymnast.core.typed import Count, Number
from gymnast.metrics.rows import STEP
from gymnast.runs.references import Run
from gymnast.sinks.jsonl import read_metrics
from gymnast.verbs.autotune.advice import Diagnosis, advised, diagnose, is_allowed
from gymnast.verbs.train import Begun, begin, find, go_on, settle

if TYPE_CHECKING:
    from gymnast.training.rows import Row
    from gymnast.training.state import TrainState

SOLVED, ALERTED, STUCK, ENDED, REACHED, SPENT = "solved", "alert", "no progress", "end", "reached", "spent"
PATIENCE = 0.25  # of a run's steps without a better score, after which it is stuck
EPISODES = 30  # of a score
TAG = "autotune"
STOPPED = "stopped; everything that was trained is kept. The same command goes on."
KEPT = ("train/approx_kl", "train/entropy", "train/explained_variance", "rollout/ep_rew_mean", "rollout/ep_len_mean")


@dataclass(frozen=True)
class Segment:
    """What is to be trained. `run` goes on; else a new run begins, from step 0 or from the checkpoint `parent`."""

    until: Count  # env steps of the run
    run: str | None = None
    parent: str | None = None  # "RUN/step_20480"
    settings: dict[str, Any] = field(default_factory=dict)  # on top of the target; of a run with a parent: of that run
    watched: bool = False  # an alert or a standstill ends it
    tried: list[str] = field(default_factory=list)  # advice that no longer ends it
    began: Count = 0  # env steps at which the run began: what its parent did before is no progress of its own
    since: Count = 0  # env steps: from here on a standstill counts


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    run: str
    env_steps: Count
    total: Count  # the run's train.total_timesteps
    trained: Count  # env steps
    seconds: Number
    reason: str
    solved: bool
    returns: list[Number]  # of episodes with sampled actions; one exact value where the env has a table; []: no score
    exact: bool
    diagnosis: Diagnosis
    row: dict[str, Number]
    verdicts: tuple[Count, Count] = (0, 0)  # asked for so far in the tuning, and how many of them were only scores

    @property
    def score(self) -> float:
        return sum(self.returns) / len(self.returns) if self.returns else -math.inf

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Start(NamedTuple):
    """Where a run was when a segment began."""

    step: int
    elapsed: float  # seconds on its clock
    verdicts: tuple[int, int]  # of all runs of the tuning before it


class Watch:
    """Sees every row of a segment and says when it ends."""

    def __init__(self, session: TrainState, segment: Segment, first: int, left: Callable[[int], bool]) -> None:
        self.session, self.segment, self.left = session, segment, left
        self.first = self.steps = first  # env steps at which the segment began
        self.reason = ENDED
        self.row: dict[str, float] = {}
        self.best, self.low, self.at = -math.inf, math.inf, segment.began

    def recall(self, rows: Iterable[Mapping[str, float]]) -> None:
        """What the run's file has: of a segment that was killed, also the rows that it has seen, as it saw them."""
        for row in rows:
            if row[STEP] > self.first:
                self(dict(row))
            elif row[STEP] > self.segment.began:
                self.remember(row)

    def remember(self, row: Mapping[str, float]) -> None:
        """The best training score so far, as the alert `plateau` counts it, and when it was."""
        score, step = row.get("rollout/ep_rew_mean"), int(row["time/total_timesteps"])
        if score is None or not math.isfinite(score):
            return
        self.low = min(self.low, score)
        if self.best == -math.inf or score > self.best + 0.05 * (self.best - self.low) + 1e-3 * abs(self.best):
            self.best, self.at = score, step

    def __call__(self, row: Row) -> bool:
        self.steps = int(row["time/total_timesteps"])
        self.row = {**self.row, **row}
        self.remember(row)
        self.reason = self.end(row) or ENDED
        return self.reason == ENDED

    def end(self, row: Row) -> str | None:
        """Spent: more budget would let it go on from here."""
        left = self.left(self.steps - self.first)
        if row["solved"]:
            return SOLVED
        if self.segment.watched and self.untried():
            return ALERTED
        still = self.steps - max(self.at, self.segment.since)
        if self.segment.watched and still > PATIENCE * self.session.config.train.total_timesteps:
            return STUCK
        if self.steps >= min(self.segment.until, self.session.config.train.total_timesteps):
            return REACHED
        return None if left else SPENT

    def untried(self) -> bool:
        """Whether an alert fires that advises something new."""
        alerts = [alert for alert in self.session.alerts.alerts if alert.firing and alert.severity != "info"]
        found = [advice for advice in advised(alerts) if is_allowed(advice.patch)]
        return any(advice.text not in self.segment.tried for advice in found)


@dataclass(frozen=True)
class Trainer:
    """Trains segments of one target in this process."""

    target: str
    overrides: tuple[str, ...]
    seed: int | None
    runs_dir: Path
    tags: tuple[str, ...]

    def has_checkpoint(self, run: str) -> bool:
        return Run(self.runs_dir / run).checkpoint_path("last").exists()

    def open(self, segment: Segment) -> Begun:
        if segment.run is not None:
            return go_on(find(segment.run, [], self.runs_dir, ended_too=True), self.runs_dir)
        settings = [f"{key}={as_text(value)}" for key, value in segment.settings.items()]
        if segment.parent is not None:
            found = find(segment.parent, settings, self.runs_dir, fork=True)
            return go_on(found, self.runs_dir, tags=self.tags)
        kept = [text for text in self.overrides if text.partition("=")[0].strip() not in segment.settings]
        order = settle(self.target, [*kept, *settings], self.runs_dir, self.seed, tags=self.tags)
        return begin(order, self.runs_dir)

    def train(self, begun: Begun, segment: Segment, start: Start, left: Callable[[int], bool]) -> Outcome:
        """`left`: whether there is budget left after so many steps."""
        from gymnast.training.record import record

        session, run, notes = begun
        judged = session.judge.record
        if judged.verdicts < start.verdicts[0]:  # the runs of a tuning share the error of one: luck gets no second try
            judged.verdicts, judged.scores = start.verdicts
        watch = Watch(session, segment, start.step, left)
        watch.recall(read_metrics(run.metrics_path))
        try:
            at_end = session.counters.env_steps >= min(segment.until, session.config.train.total_timesteps)
            over = at_end or watch.reason != ENDED
            if judged.solved or (over and not session.counters.unjudged):
                run.finish("finished")  # it was killed after its last step
                watch.reason = REACHED if watch.reason == ENDED else watch.reason
            else:
                result = record(session, run, notes, quiet=True, observer=watch)
                if result.stop_reason == "interrupted":
                    raise Stopped(STOPPED)
            if segment.watched:
                keep_step(run, session.counters.env_steps)
            now = time.monotonic()
            returns, exact = score_of(session)
            judged = session.judge.record
            return Outcome(
                run=run.id,
                env_steps=session.counters.env_steps,
                total=session.config.train.total_timesteps,
                trained=session.counters.env_steps - start.step,
                seconds=session.clock.elapsed - start.elapsed + time.monotonic() - now,
                reason=SOLVED if judged.solved else watch.reason,
                solved=judged.solved,
                returns=returns,
                exact=exact,
                diagnosis=diagnose(session.alerts.alerts, session.alerts.known, watch.row),
                row={name: watch.row[name] for name in KEPT if name in watch.row},
                verdicts=(judged.verdicts, judged.scores),
            )
        finally:
            session.close()


def keep_step(run: Run, step: int) -> None:
    """The last checkpoint under its own name, so that several runs can start from it while this one goes on."""
    for file in run.checkpoints_dir.glob("last.*"):
        shutil.copy2(file, file.with_name(f"step_{step}{file.suffix}"))


def score_of(session: TrainState) -> tuple[list[float], bool]:
    """How good the agent is now, by sampled actions: while it learns they say more than the most likely ones, which a
    verdict may be about. The same episodes for every agent of the tuning; the exact value where the env has a table."""
    from gymnast.judge.evaluate import evaluate
    from gymnast.judge.exact import exact_score

    judge, config = session.judge, session.config
    if not judge.judges_at_the_end or any(alert.rule == "not_finite" for alert in session.alerts.alerts):
        return [], False
    if judge.table is not None:
        return [exact_score(session.net, judge.table, deterministic=False).value], True
    seed = derive_seed(config.train.seed, "autotune")
    return evaluate(session.net, judge.env, EPISODES, seed, deterministic=False).returns.tolist(), False
