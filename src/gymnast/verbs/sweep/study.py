"""The samplers and the journal are Optuna's: every round is a study in one file, which `optuna-dashboard` opens.

The cells on the disk are the truth. A trial that a killed process had begun is still in the journal with its numbers,
so the same command goes on with it instead of drawing another one.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError, package_problem
from gymnast.core.seeds import derive_seed
from gymnast.verbs.sweep.plan import Candidate, Plan
from gymnast.verbs.sweep.store import Record

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

RANDOM = 10  # draws before tpe and gp make use of scores
MOST_TRIES = 50  # draws in a row that fit no config, or one that was drawn before
FEWEST = 20  # trials, from which on the importance of a setting is more than luck
DRAWN_BEFORE = "drawn before"
BASE = "base"  # attribute of the trial that is the config the user named


def require_optuna() -> None:
    if problem := package_problem("optuna", "sweep"):
        raise UserError(problem)


class Journal:
    """The study of the first round, where configs are drawn, and one for each later round."""

    def __init__(self, path: Path, plan: Plan) -> None:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        drop_half_a_line(path)
        refuse_garbage(path)
        self.plan, self._name = plan, path.parent.name
        self._storage = JournalStorage(JournalFileBackend(str(path)))
        self._distributions = {dim.name: dim.distribution() for dim in plan.space}
        self.study = self._open("round 1")
        self._read: set[int] = set()  # trials
        self._drawn: dict[str, tuple[int, Candidate]] = {}

    def _open(self, what: str) -> Study:
        import optuna

        return optuna.create_study(
            study_name=f"{self._name}, {what}", storage=self._storage, direction="maximize", load_if_exists=True
        )

    def candidates(self) -> list[tuple[int, Candidate]]:
        """Those that were drawn so far, with their trials; without draws that a kill has cut short."""
        for trial in self.study.get_trials(deepcopy=False):
            if trial.number not in self._read and trial.params.keys() == self._distributions.keys():
                self._read.add(trial.number)
                self._take(trial)
        return list(self._drawn.values())

    def _take(self, trial: FrozenTrial) -> str | None:
        """Counts a draw, or says why it is none."""
        try:
            values = {dim.key: dim.value(trial.params[dim.name]) for dim in self.plan.space}
            candidate = self.plan.candidate(values)
        except configs.ConfigError as error:
            return error.problems[0]
        if BASE in trial.user_attrs or candidate.id == self.plan.base.id or candidate.id in self._drawn:
            return DRAWN_BEFORE
        self._drawn[candidate.id] = trial.number, candidate
        return None

    def draw(self, scores: Mapping[str, float]) -> tuple[int, Candidate] | None:
        """Another config; None where the space has no more. `scores`: by config, what is known by now."""
        from optuna.trial import TrialState

        self.candidates()
        why = None
        for _ in range(MOST_TRIES):
            if not self._enqueue(scores):
                return None
            trial = self.study.ask(self._distributions)
            self._read.add(trial.number)
            why = self._take(self.study.get_trials(deepcopy=False)[trial.number])
            if why is None:
                return list(self._drawn.values())[-1]
            trial.set_user_attr("refused", why)
            self.study.tell(trial.number, state=TrialState.FAIL)
        if why != DRAWN_BEFORE and not self._drawn:
            raise UserError(f"search space: {MOST_TRIES} draws in a row fit no config; the last one: {why}")
        return None

    def _enqueue(self, scores: Mapping[str, float]) -> bool:
        """The point of the next draw: one of `starts`, then what the sampler says."""
        from optuna.trial import TrialState

        trials = self.study.get_trials(deepcopy=False)
        if any(trial.state == TrialState.WAITING for trial in trials):  # of a process that was killed here
            return True
        there = [trial.params for trial in trials]
        point = next((point for point in self.plan.starts if point not in there), None)
        if point is None and self.plan.sampler == "grid":
            point = next((point for point in grid(self.plan) if point not in there), None)
            if point is None:
                return False
        number = sum(BASE not in trial.user_attrs for trial in trials)  # of this draw
        self.study.enqueue_trial(point or self._sampled(number, scores))
        return True

    def _sampled(self, number: int, scores: Mapping[str, float]) -> dict[str, Any]:
        """What the sampler draws, which learns from the best that is known of each config: its score of all rounds. It
        depends on these, the seed and the number of the draw alone, so that a sweep that was interrupted draws what an
        uninterrupted one does."""
        import optuna

        seed, given = derive_seed(self.plan.seed, "sampler", number), len(self.plan.starts)
        base = self.plan.drawn_base()
        sampler = make_sampler(self.plan.sampler, seed, given + (base is not None))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        trials = self.study.get_trials(deepcopy=False)
        points = {config: trials[number].params for config, (number, _) in self._drawn.items()}
        if base is not None:
            points[self.plan.base.id] = base
        for config, params in points.items():
            if config in scores:
                study.add_trial(
                    optuna.trial.create_trial(params=params, distributions=self._distributions, value=scores[config])
                )
        return dict(study.ask(self._distributions).params)

    def tell(self, number: int, record: Record | None, steps: int) -> None:
        """How a config did in the first round; None: it failed. A stopped one keeps its last score to the end."""
        from optuna.trial import TrialState

        trial = self.study.get_trials(deepcopy=False)[number]
        if trial.state.is_finished():
            return
        if record is None:
            self.study.tell(number, state=TrialState.FAIL)
            return
        running = _trial(self.study, number)
        for at, score in record.curve:
            running.report(score, at)
        for name, value in _facts(record).items():
            running.set_user_attr(name, value)
        self.study.tell(number, record.score(steps))

    def add_base(self, record: Record, steps: int) -> None:
        """The config that the user named, if it is a point of the space: samplers learn from it, too."""
        drawn = self.plan.drawn_base()
        if drawn is not None and not any(BASE in t.user_attrs for t in self.study.get_trials(deepcopy=False)):
            self._add(self.study, drawn, record, steps, {BASE: True})

    def add_round(self, what: str, steps: int, cells: Iterator[tuple[Candidate, Record]]) -> None:
        """The cells of a later round, as trials of its own study."""
        study = self._open(what)
        there = {(t.user_attrs["config"], t.user_attrs["seed"]) for t in study.get_trials(deepcopy=False)}
        self.candidates()
        trials = self.study.get_trials(deepcopy=False)
        for candidate, record in cells:
            drawn = self._drawn.get(candidate.id)
            params = self.plan.drawn_base() if drawn is None else trials[drawn[0]].params
            if params is not None and (record.config, record.seed) not in there:
                self._add(study, params, record, steps, {})

    def _add(self, study: Study, params: dict[str, Any], record: Record, steps: int, more: dict[str, Any]) -> None:
        from optuna.trial import create_trial

        study.add_trial(
            create_trial(
                params=params,
                distributions=self._distributions,
                value=record.score(steps),
                intermediate_values=dict(record.curve),
                user_attrs=_facts(record) | more,
            )
        )

    def importances(self) -> dict[str, float]:
        """How much of the first round's scores each setting explains, by Optuna's PED-ANOVA; {}: too few to say."""
        import optuna

        done = [t for t in self.study.get_trials(deepcopy=False) if t.value is not None]
        if len(done) < FEWEST or len({t.value for t in done}) < 2:
            return {}
        return dict(optuna.importance.get_param_importances(self.study))

    def slices(self) -> dict[str, list[tuple[Any, float]]]:
        """(number, score) of the first round, by setting."""
        done = [t for t in self.study.get_trials(deepcopy=False) if t.value is not None]
        return {
            dim.key: [(dim.value(t.params[dim.name]), t.value) for t in done if t.value is not None]
            for dim in self.plan.space
        }


def drop_half_a_line(path: Path) -> None:
    """What a full disk or a power cut leaves at the end of the journal, on which Optuna fails from then on. Nobody else
    writes while a sweep is open. What the line said is in the cells, or is drawn again."""
    if path.is_file() and not (written := path.read_bytes()).endswith(b"\n"):
        with path.open("rb+") as file:
            file.truncate(written.rfind(b"\n") + 1)


def refuse_garbage(path: Path) -> None:
    """UserError for a line that Optuna has not written."""
    for number, line in enumerate(path.read_bytes().splitlines() if path.is_file() else [], start=1):
        try:
            is_known = "op_code" in json.loads(line)
        except (ValueError, TypeError):
            is_known = False
        if not is_known:
            raise UserError(
                f"{path}: line {number} is damaged. Delete the file: the trainings are kept in cells, and the same "
                "command writes it again."
            )


def _trial(study: Study, number: int) -> Any:
    """A trial that was begun, perhaps by a process that is gone."""
    from optuna.trial import Trial

    return Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)


def _facts(record: Record) -> dict[str, Any]:
    return {
        "config": record.config,
        "seed": record.seed,
        "steps": record.steps,
        "seconds": round(record.seconds, 2),
        "stopped": record.stopped,
    }


def make_sampler(name: str, seed: int, given: int) -> BaseSampler:
    """`given`: points that were not drawn. They are few and alike, and take no random draw's place."""
    from optuna import samplers

    if name == "tpe":
        return samplers.TPESampler(seed=seed, n_startup_trials=RANDOM + given)
    if name == "gp":
        return samplers.GPSampler(seed=seed, n_startup_trials=RANDOM + given, deterministic_objective=False)
    return samplers.RandomSampler(seed=seed)


def grid(plan: Plan) -> Iterator[dict[str, Any]]:
    """All combinations, in an order that the seed shuffles: a part of them is no corner of the space."""
    choices = [dim.distribution().choices for dim in plan.space]  # type: ignore[attr-defined]
    points = list(itertools.product(*choices))
    random.Random(derive_seed(plan.seed, "grid")).shuffle(points)
    for point in points:
        yield dict(zip((dim.name for dim in plan.space), point, strict=True))
