"""The rounds of a sweep: wide and short, then narrow and long; and the confirmation on fresh seeds.

Each round trains its cells on common seeds and keeps the best. Survivors go on exactly where they stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from time import monotonic

import numpy as np

from gymnast.core.errors import EnvFailure
from gymnast.core.text import assignment, number
from gymnast.jobs.pool import Launcher
from gymnast.verbs.progress import Progress
from gymnast.verbs.sweep.cells import Cell, Failure, run_cells
from gymnast.verbs.sweep.compare import Comparison, compare
from gymnast.verbs.sweep.plan import Candidate, Plan, Round, rounds_of
from gymnast.verbs.sweep.standings import TITLES, Standing, standings
from gymnast.verbs.sweep.store import Record, Store
from gymnast.verbs.sweep.study import Journal

TURN = 8  # configs that are drawn before the best ones so far make all steps
SHOWN = 8  # configs of the live table


class Search:
    def __init__(
        self,
        plan: Plan,
        store: Store,
        launcher: Launcher,
        trials: int,
        jobs: int,
        minutes: float | None,
        progress: Progress,
    ) -> None:
        self.plan, self.store, self.launcher, self.progress = plan, store, launcher, progress
        self.trials, self.jobs = trials, jobs
        self.until = None if minutes is None else monotonic() + 60 * minutes
        self.journal = Journal(store.journal, plan)
        self.failed: dict[str, str] = {}  # by config: why
        self.ran = 0  # cells that this command has trained
        self.steps_made, self.began = 0, monotonic()
        first = rounds_of(1, plan.steps)[0].steps
        self.steps_kept = sum(first if r.stopped else min(r.steps, plan.steps) for r in store.records.values())

    def search(self) -> list[Candidate]:
        """The finalists, best first, after all rounds."""
        self.progress.plan(max(0, planned_steps(self.trials, self.plan) - self.steps_kept))
        seeds, steps = self.plan.search_seeds, self.plan.steps
        drawn, whole = self.draw_and_train()
        last = rounds_of(len(drawn), steps)[2:]
        finalists = self.best(whole, seeds[:1], steps)[: last[0].candidates]
        self.let_go(drawn, finalists)
        return self.race(finalists, last)

    def draw_and_train(self) -> tuple[list[Candidate], list[Candidate]]:
        """The first two rounds: all that were drawn, and the best of them, which have made all steps. They take turns,
        so that the sampler learns from whole trainings, too."""
        seeds, drawn = self.plan.search_seeds[:1], list[Candidate]()
        while True:
            begin, until = len(drawn), min(len(drawn) + TURN, self.trials)
            self.run("round 1", self.first_round(begin, until))
            drawn = [candidate for _, candidate in self.journal.candidates()][:until]
            first, second = rounds_of(max(1, len(drawn)), self.plan.steps)[:2]
            if begin == 0:
                self.warn_of_equals(drawn, first.steps)
            is_last = len(drawn) < until or until == self.trials
            better = self.best(drawn, seeds, first.steps) if is_last else self.ranked(drawn, seeds, first.steps)
            self.run("round 2", [Cell(c, seeds[0], second.steps) for c in better[: second.candidates]])
            if is_last:
                self.write_down("round 2", better[: second.candidates], seeds, second.steps)
                return drawn, better[: second.candidates]

    def first_round(self, begin: int, until: int) -> Iterator[Cell]:
        """The base, then one draw after another; those of an earlier process first."""
        seed, steps = self.plan.search_seeds[0], rounds_of(1, self.plan.steps)[0].steps
        if begin == 0:
            if (record := self.store.find(self.plan.base, seed, steps)) is not None:
                self.journal.add_base(record, steps)
            yield Cell(self.plan.base, seed, steps, may_stop=False)
        known = self.journal.candidates()
        for index in range(begin, until):
            if index < len(known):
                found: tuple[int, Candidate] | None = known[index]
            else:
                found = None if self.out_of_time(index + 1) else self.journal.draw(self.known_scores())
            if found is None:
                return
            trial, candidate = found
            if (record := self.store.find(candidate, seed, steps)) is not None:
                self.journal.tell(trial, record, steps)
            yield Cell(candidate, seed, steps)

    def known_scores(self) -> dict[str, float]:
        """By config, the mean of its trainings with search seeds; what was not trained to the end keeps its last
        evaluation to the end."""
        found: dict[str, list[float]] = {}
        for (config, seed), record in self.store.records.items():
            if seed in self.plan.search_seeds:
                found.setdefault(config, []).append(record.score(self.plan.steps))
        return {config: float(np.mean(scores)) for config, scores in found.items()}

    def warn_of_equals(self, drawn: Sequence[Candidate], steps: int) -> None:
        """Where no config has learned anything yet, as with a sparse reward and few steps."""
        scores = {self.scores(c, self.plan.search_seeds[:1], steps)[0] for c in (self.plan.base, *drawn)}
        if len(drawn) > 1 and len(scores) == 1 and np.isfinite(max(scores)):
            self.progress.say(
                f"all of the first {len(drawn) + 1} configs have the same score, {number(scores.pop())}, after "
                f"{steps:,} steps: nothing tells them apart. Use more --steps."
            )

    def race(self, finalists: Sequence[Candidate], rounds: Sequence[Round]) -> list[Candidate]:
        """The last rounds: ever fewer configs, with ever more seeds."""
        racing = list(finalists)
        for index, now in enumerate(rounds, start=3):
            racing, seeds, what = racing[: now.candidates], self.plan.search_seeds[: now.seeds], f"round {index}"
            if len(racing) > 1:
                self.run(what, [Cell(c, seed, now.steps, may_stop=False) for seed in seeds for c in racing])
                self.write_down(what, racing, seeds, now.steps)
                racing = self.best(racing, seeds, now.steps)
        return racing

    def confirm(self, winner: Candidate) -> dict[str, Comparison]:
        """On seeds that the search has never used, by whom the winner is compared with."""
        seeds, steps, others = self.plan.fresh_seeds, self.plan.steps, self.plan.opponents
        everybody = list({c.id: c for c in (winner, *others.values())}.values())
        self.failed = {config: why for config, why in self.failed.items() if config not in {c.id for c in everybody}}
        self.run("confirmation", [Cell(c, seed, steps, may_stop=False) for seed in seeds for c in everybody])
        for candidate in everybody:
            if candidate.id in self.failed:
                raise EnvFailure(
                    f"the confirmation failed: {self.failed[candidate.id]}. The same command tries it again."
                )
        self.write_down("confirmation", [winner, self.plan.base], seeds, steps)
        ours = self.scores(winner, seeds, steps)
        return {name: compare(ours, self.scores(other, seeds, steps)) for name, other in others.items()}

    def run(self, what: str, cells: Iterable[Cell]) -> None:
        """Trains what is not there yet; every end is a line."""
        reached: dict[Cell, int] = {}
        with closing(run_cells(cells, self.jobs, self.launcher, self.plan, self.store)) as events:
            for cell, news in events:
                before = reached.get(cell, self.steps_before(cell))
                reached[cell] = min(news, cell.steps) if isinstance(news, int) else cell.steps
                self.progress.done(reached[cell] - before)
                if not isinstance(news, int):
                    self.ended(what, cell, news)
                elif news:
                    self.steps_made += max(0, reached[cell] - before)
                self.progress.step(f"{what} · {self.ran} cells done")

    def steps_before(self, cell: Cell) -> int:
        record = self.store.records.get((cell.candidate.id, cell.seed))
        return 0 if record is None else min(record.steps, cell.steps)

    def ended(self, what: str, cell: Cell, news: Record | Failure) -> None:
        self.ran += 1
        trial = next((number for number, c in self.journal.candidates() if c.id == cell.candidate.id), None)
        is_first = what == "round 1"
        name = f"{what}  {describe(cell.candidate, self.plan)}"
        if isinstance(news, Failure):
            self.failed[cell.candidate.id] = news.why
            if is_first and trial is not None:
                self.journal.tell(trial, None, cell.steps)
            self.progress.say(f"{name}: {news.why}", failed=True)
            return
        if is_first and trial is not None:
            self.journal.tell(trial, news, cell.steps)
        elif is_first:
            self.journal.add_base(news, cell.steps)
        end = f"stopped at {news.steps:,} steps" if news.stopped else f"{news.steps:,} steps"
        self.progress.say(f"{name}: {number(news.score(cell.steps))}, {end}, {news.seconds:,.1f} s")
        self.progress.table(TITLES, [standing.cells for standing in self.standings()[:SHOWN]])

    def standings(self) -> list[Standing]:
        drawn = [candidate for _, candidate in self.journal.candidates() if candidate.id not in self.failed]
        return standings(self.plan, self.store, drawn)

    def scores(self, candidate: Candidate, seeds: Sequence[int], steps: int) -> list[float]:
        """By seed; of a cell that is not there: the worst."""
        found = [self.store.records.get((candidate.id, seed)) for seed in seeds]
        return [
            -np.inf if record is None or (record.steps < steps and not record.stopped) else record.score(steps)
            for record in found
        ]

    def best(self, candidates: Sequence[Candidate], seeds: Sequence[int], steps: int) -> list[Candidate]:
        """Best first, by their mean score on common seeds; without those that failed or were stopped."""
        found = self.ranked(candidates, seeds, steps)
        if not found:
            raise EnvFailure(f"no config is left: {next(iter(self.failed.values()), 'none was drawn')}")
        return found

    def ranked(self, candidates: Sequence[Candidate], seeds: Sequence[int], steps: int) -> list[Candidate]:
        """The same; none where all of them failed."""
        means = {c.id: float(np.mean(self.scores(c, seeds, steps))) for c in candidates}
        there = [c for c in candidates if np.isfinite(means[c.id]) and c.id not in self.failed]
        whole = [
            c for c in there if not any(self.store.records[c.id, seed].was_stopped_before(steps) for seed in seeds)
        ]
        return sorted(whole or there, key=lambda c: -means[c.id])

    def let_go(self, before: Sequence[Candidate], after: Sequence[Candidate]) -> None:
        kept = {candidate.id for candidate in after}
        for candidate in before:
            if candidate.id not in kept:
                self.store.drop_checkpoints(candidate.id)

    def write_down(self, what: str, candidates: Sequence[Candidate], seeds: Sequence[int], steps: int) -> None:
        cells = ((c, record) for c in candidates for seed in seeds if (record := self.store.find(c, seed, steps)))
        self.journal.add_round(what, steps, cells)

    def out_of_time(self, trials: int) -> bool:
        """Whether a sweep with so many trials is expected to take longer than --minutes."""
        if self.until is None or trials <= 2:
            return False
        now = monotonic()
        rate = self.steps_made / max(now - self.began, 1e-9)
        left = planned_steps(trials, self.plan) - self.steps_kept - self.steps_made
        return rate > 0 and now + left / rate > self.until


def planned_steps(trials: int, plan: Plan) -> int:
    """Of a sweep that stops no cell early: survivors go on where they were."""
    rounds = rounds_of(trials, plan.steps)
    search = (trials + 1) * rounds[0].steps
    for before, after in pairwise(rounds):
        search += after.candidates * (after.seeds * after.steps - before.seeds * before.steps)
    return search + (1 + len(plan.opponents)) * plan.fresh * plan.steps


def describe(candidate: Candidate, plan: Plan) -> str:
    """A config in a few words."""
    values = ", ".join(assignment(key, value) for key, value in candidate.values.items())
    names = {other.id: name for name, other in plan.opponents.items()}
    return f"{candidate.id} {values or names.get(candidate.id, '')}"
