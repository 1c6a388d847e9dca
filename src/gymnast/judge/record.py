"""What a run knows of its evaluations and verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from gymnast.judge.evidence import NOTHING_SEEN, Evidence, Range
from gymnast.judge.stages import StageEnd
from gymnast.judge.verdict import EvalRequest

SOLVED, TARGET = "solved", "target"  # the goals of a run


@dataclass
class TaskRecord:
    """What a run knows of one of its tasks, in that env's own reward."""

    threshold: float
    seen: Range = NOTHING_SEEN
    score: float | None = None  # of the last verdict, or of the last evaluation before any
    interval: tuple[float, float] | None = None  # of a verdict's score
    episodes: int = 0
    solved: bool = False  # the last verdict on it has shown that
    test: Evidence | None = None  # of that verdict


@dataclass
class Record:
    """What a run knows of its evaluations and verdicts; all of it is part of a checkpoint."""

    evaluations: int = 0
    next_evaluation: int = 0  # env steps
    verdicts: int = 0
    scores: int = 0  # of these verdicts: no more than a score, since nothing was asked
    next_verdict: int = 0  # env steps
    judged_at: int = -1  # env steps of the agent that the last verdict was on
    best_score: float | None = None
    best_high: float = math.inf  # what the best agent's mean may be at the most
    best_at: int = 0  # env steps
    best_judged: bool = False  # a verdict on that agent was given: there is no second one
    since_best: int = 0  # evaluations
    last_score: float | None = None  # of the last evaluation
    last_at: int = 0  # env steps
    solved: bool = False
    on_target: bool = False
    test: Evidence | None = None  # that has shown the highest goal so far; before any has: the last one
    seen: Range = NOTHING_SEEN  # returns, of training and of evaluations
    tasks: dict[str, TaskRecord] = field(default_factory=dict)  # of a run with several
    due: EvalRequest | None = None  # begun, and not done yet; it stays so where it is broken off
    stage_ends: dict[str, StageEnd] = field(default_factory=dict)
    stage_scores: dict[str, float] = field(default_factory=dict)  # the latest known

    def without_results(self) -> Record:
        """Numbers go on counting, so that no episodes and no share of the error are used twice."""
        return Record(evaluations=self.evaluations, verdicts=self.verdicts, scores=self.scores)


RECORD = TypeAdapter(Record)
