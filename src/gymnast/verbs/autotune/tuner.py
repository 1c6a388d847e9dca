"""The loop: train, read the diagnosis, try what is advised against the run as it is, keep or revert, go on."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gymnast.core.files import numbers_to_json
from gymnast.core.statistics import interval, mean
from gymnast.core.text import number
from gymnast.core.typed import Count, Number, typed
from gymnast.verbs.autotune.advice import ALERT, USUAL, Advice
from gymnast.verbs.autotune.budget import Budget
from gymnast.verbs.autotune.journal import Journal, Line
from gymnast.verbs.autotune.page import write_page
from gymnast.verbs.autotune.segment import ALERTED, ENDED, SPENT, STUCK, Outcome, Segment, Start, Trainer
from gymnast.verbs.progress import Progress

HORIZON = 0.1  # of a run's steps: the first stretch of a comparison
ROUNDS = 3  # stretches, while neither side is clearly better
TRIES = {ALERTED: 2, STUCK: 4, ENDED: 100}  # advice that one decision tries
BETTER, WORSE, OPEN = "better", "worse", "open"


class _Begin(TypedDict):
    run: str
    step: Count
    elapsed: Number


class _Segment(TypedDict):
    outcome: Outcome


BEGIN, SEGMENT = TypeAdapter(_Begin), TypeAdapter(_Segment)


@dataclass
class Side:
    """A run in the tuning: how it came to be, and how far it is."""

    settings: dict[str, Any]  # on top of the target
    outcome: Outcome
    began: int = 0  # env steps

    @property
    def steps(self) -> int:
        return self.outcome.env_steps

    @property
    def reproduced(self) -> bool:
        """Whether these settings alone solve it, from step 0."""
        return self.outcome.solved and self.began == 0


@dataclass
class Tuner:
    trainer: Trainer
    journal: Journal
    budget: Budget
    progress: Progress
    steps: int  # train.total_timesteps of the target
    rollout: int  # env steps between two updates
    first: Segment
    tried: set[tuple[str, str, str]] = field(default_factory=set)  # settings, situation, change
    sides: list[Side] = field(default_factory=list)  # all that were kept, in order
    verdicts: tuple[int, int] = (0, 0)  # asked for so far, and those that were only scores

    @property
    def current(self) -> Side:
        return self.sides[-1]

    @property
    def horizon(self) -> int:
        return max(int(HORIZON * self.steps), 4 * self.rollout)

    @property
    def over(self) -> bool:
        return self.current.outcome.solved or self.budget.spent

    def run(self) -> Side:
        """The run that solved it with its settings alone, else the first that solved it, else the one that was kept."""
        self.sides = [Side({}, self.train(self.first, "the run as it is"), self.first.began)]
        solver: Side | None = None
        while True:
            while not self.over:
                self.decide()
                if not self.over:
                    self.go_on()
            side = self.current
            solver = solver or (side if side.outcome.solved else None)
            if side.reproduced or self.budget.spent or not side.settings:
                return side if side.reproduced else solver or side
            self.start_again(side)

    def start_again(self, side: Side) -> None:
        """An agent that learned under several settings has solved it. Whether the last of them do so alone is open."""
        self.progress.say(f"solved by {side.outcome.run}; now its settings alone, from step 0")
        until = side.settings.get("train.total_timesteps", self.steps)
        segment = Segment(until, settings=side.settings, watched=True)
        self.sides.append(Side(side.settings, self.train(segment, "the settings alone")))

    def go_on(self) -> None:
        """The current run goes on, until something is to be decided."""
        side = self.current
        tried = sorted(change for settings, _, change in self.tried if settings == key_of(side.settings))
        total = side.outcome.total
        if side.steps < total:
            segment = Segment(total, side.outcome.run, watched=True, tried=tried, began=side.began, since=side.steps)
            side.outcome = self.train(segment, "goes on")

    # Training

    def train(self, segment: Segment, what: str) -> Outcome:
        """Trains it, or recalls what came of it."""
        asked = json.loads(json.dumps(numbers_to_json(asdict(segment))))
        begun = self.journal.recall("begin", lambda line: line.get("asked") == asked and fits(BEGIN, line))
        done = self.journal.recall("segment", partial(fits, SEGMENT)) if begun is not None else None
        if done is not None and self.goes_on(typed(SEGMENT, done)["outcome"]):
            self.journal.forget_last()
            done = None
        if done is None:
            outcome = self.do(segment, asked, begun, what)
            self.journal.write("segment", outcome=outcome.to_json())
        else:
            outcome = typed(SEGMENT, done)["outcome"]
            self.progress.done(self.budget.of(outcome.trained, outcome.seconds))
        self.budget.use(outcome.trained, outcome.seconds)
        self.verdicts = outcome.verdicts
        return outcome

    def goes_on(self, outcome: Outcome) -> bool:
        """Of a segment that the journal ends with: the budget of then ended it, and now there is more."""
        left = self.budget.used + self.budget.of(outcome.trained, outcome.seconds) < self.budget.total
        return outcome.reason == SPENT and left and not self.journal.recalling

    def do(self, segment: Segment, asked: Line, begun: Line | None, what: str) -> Outcome:
        """`begun`: it was under way before, and was killed or ran out of budget."""
        self.progress.step(what)
        before = time.monotonic()
        if begun is not None and self.trainer.has_checkpoint(begun["run"]):
            opened = self.trainer.open(replace(segment, run=begun["run"]))
            start = Start(begun["step"], begun["elapsed"], self.verdicts)
        else:
            if begun is not None:
                self.journal.forget_last()
            opened = self.trainer.open(segment)
            clock = opened.session.clock.elapsed - (time.monotonic() - before)  # opening it takes time, too
            start = Start(opened.session.counters.env_steps, clock, self.verdicts)
            self.journal.write("begin", asked=asked, run=opened.run.id, step=start.step, elapsed=start.elapsed)
        left = self.budget.meter(self.progress, opened.session.clock.elapsed - start.elapsed)
        return self.trainer.train(opened, segment, start, left)

    # Deciding

    def decide(self) -> None:
        """Something is to be decided: what is advised is tried, one change after the other, until one is better."""
        side = self.current
        situation = ENDED if side.steps >= side.outcome.total else side.outcome.reason
        choices = self.choices(side, situation)
        if not choices:  # what is left was tried in another situation
            self.tried |= {(key_of(side.settings), situation, one.text) for one in side.outcome.diagnosis.advice}
            if situation == ENDED:
                self.train_on(side)
            return
        begun = side.steps
        checkpoint = f"{side.outcome.run}/step_{begun}"
        if situation != ENDED and "not_finite" not in side.outcome.diagnosis.firing:
            self.extend(side, begun + self.horizon, "control")
        for advice in choices:
            if self.over:
                return
            self.tried.add((key_of(side.settings), situation, advice.text))
            fresh = advice.fresh or side.outcome.diagnosis.broken or situation == ENDED
            if self.contest(side, advice, situation, None if fresh else checkpoint, begun):
                return

    def choices(self, side: Side, situation: str) -> list[Advice]:
        """What was not tried yet with these settings in this situation."""
        advice = side.outcome.diagnosis.advice
        if situation == ALERTED:
            advice = [one for one in advice if one.kind == ALERT and one.firing and one.urgent]
        key = key_of(side.settings)
        return [one for one in advice if (key, situation, one.text) not in self.tried][: TRIES.get(situation, 0)]

    def contest(self, side: Side, advice: Advice, situation: str, checkpoint: str | None, begun: int) -> bool:
        """A change against the run as it is, at equal steps; True: it is kept, and is the current run from now on. What
        a spent budget leaves open is not decided: with a larger one the contest goes on."""
        before = self.budget.used_steps
        other = self.challenger(side, advice, checkpoint, begun)
        result, low, high = compare(side.outcome, other.outcome)
        rounds = 1
        while checkpoint is not None and result == OPEN and rounds < ROUNDS and not (self.over or other.outcome.solved):
            until = side.steps + self.horizon
            if until > side.outcome.total:
                break
            self.extend(side, until, "control")
            if not self.budget.spent:
                self.extend(other, side.steps, advice.text)
            result, low, high = compare(side.outcome, other.outcome)
            rounds += 1
        if self.budget.spent and not other.outcome.solved and (result == OPEN or other.steps < side.steps):
            self.progress.say(f"undecided  {advice.text}: the budget is spent")
            return False
        kept, why = judged(result, advice, side.outcome, other.outcome)
        self.journal.once(
            "decision",
            step=begun,
            situation=situation,
            rule=advice.rule,
            evidence=advice.evidence,
            reason=advice.reason,
            patch=advice.patch,
            source=advice.kind,
            start="step 0" if checkpoint is None else checkpoint,
            control=summary(side.outcome),
            patched=summary(other.outcome),
            difference=None if low is None else [low, high],
            result=result,
            kept=kept,
            why=why,
            cost_steps=self.budget.used_steps - before,
        )
        write_page(self.journal)
        self.progress.say(
            f"{'kept' if kept else 'reverted'}  {advice.text}: {shown(other.outcome)} against {shown(side.outcome)} "
            f"as it is; {why}"
        )
        if kept:
            self.sides.append(other)
        return kept

    def challenger(self, side: Side, advice: Advice, checkpoint: str | None, begun: int) -> Side:
        """The run with the change, as far as the control is; one from step 0 may be clearly better before that."""
        settings = {**side.settings, **advice.patch}
        if checkpoint is not None:
            patch = {"train.total_timesteps": begun + self.steps, **advice.patch}  # schedules have a run ahead of them
            segment = Segment(side.steps, parent=checkpoint, settings=patch, began=begun)
            return Side(settings, self.train(segment, advice.text), begun)
        other = Side(settings, self.train(Segment(min(self.horizon, side.steps), settings=settings), advice.text))
        while (
            other.steps < min(side.steps, other.outcome.total)
            and not (other.outcome.solved or self.budget.spent)
            and compare(side.outcome, other.outcome)[0] != BETTER
        ):
            self.extend(other, min(2 * other.steps, side.steps), advice.text)
        return other

    def extend(self, side: Side, until: int, what: str) -> None:
        segment = Segment(min(until, side.outcome.total), side.outcome.run, began=side.began)
        side.outcome = self.train(segment, what)

    def train_on(self, side: Side) -> None:
        """Nothing is left to try: more steps for the run as it is."""
        total = 2 * side.outcome.total
        parent = f"{side.outcome.run}/last"
        patch = {"train.total_timesteps": total}
        self.journal.once("decision", step=side.steps, situation=ENDED, patch=patch, source="more steps", kept=True)
        self.progress.say(f"kept  train.total_timesteps={total}: nothing is left to try")
        segment = Segment(total, parent=parent, settings=patch, watched=True, began=side.steps)
        self.sides.append(Side({**side.settings, **patch}, self.train(segment, "trains on"), side.steps))


def fits(kind: TypeAdapter[Any], line: Line) -> bool:
    """Whether a line of the journal is what this version writes."""
    try:
        typed(kind, line)
    except ValueError:
        return False
    return True


def key_of(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def compare(control: Outcome, patched: Outcome) -> tuple[str, float | None, float | None]:
    """Whether the change is better, and the difference of the scores with 95 % confidence."""
    a, b = control.returns, patched.returns
    if not a or not b:
        return BETTER if b else WORSE if a else OPEN, None, None
    if control.exact:
        low = high = b[0] - a[0]
        small = 1e-3 * max(abs(a[0]), abs(b[0]))
    else:
        low, high = interval(lambda x, y: mean(y) - mean(x), a, b)
        small = 0.0
    return BETTER if low > small else WORSE if high < -small else OPEN, low, high


def judged(result: str, advice: Advice, control: Outcome, patched: Outcome) -> tuple[bool, str]:
    """Whether to keep a change, and why. Where the scores show no difference, an alert decides, or what is usual."""
    if patched.solved:
        return True, "solved"
    if result == BETTER:
        return True, "clearly better"
    if result == WORSE:
        return False, "clearly worse"
    if advice.rule in control.diagnosis.firing and advice.rule not in patched.diagnosis.firing:
        return True, f"no clear difference, and {advice.rule} is gone"
    if advice.kind == USUAL and patched.score >= control.score:
        return True, "no clear difference, and it is what is usual"
    return False, "no clear difference"


def summary(outcome: Outcome) -> Line:
    return {"run": outcome.run, "env_steps": outcome.env_steps, "score": outcome.score, "solved": outcome.solved}


def shown(outcome: Outcome) -> str:
    return number(outcome.score) if math.isfinite(outcome.score) else "no score"
