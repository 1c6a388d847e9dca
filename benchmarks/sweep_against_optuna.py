"""Does the search of `gymnast sweep` find better configs than plain Optuna with the same number of env steps?

    python benchmarks/sweep_against_optuna.py --out results                          all cases, sweep seeds 0 to 4
    python benchmarks/sweep_against_optuna.py --out results --only cartpole --seeds 0 1
    python benchmarks/sweep_against_optuna.py --out results --table                  what is there, as Markdown

Plain Optuna: TPE and the median pruner with their own settings; a trial is one training of full length with one seed.
Both have the same base config, ranges, score (the area under the evaluation curve) and trainings. The sweep goes first;
Optuna begins trials until it has made as many env steps, and finishes its last one. The best config of each is then
trained with five fresh seeds, whose steps count for neither. Only the sweep knows the values of the shipped preset:
that is a part of what it does.

Trainings run one after the other in this process. A result is written to --out as soon as it is there, and what is
there is not done again; a search that was interrupted begins again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from statistics import fmean
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any

import optuna

from gymnast import config as configs
from gymnast.core.files import read_json, write_json
from gymnast.core.text import assignment, number
from gymnast.jobs.worker import Event, Job
from gymnast.verbs.progress import SILENT
from gymnast.verbs.sweep import worker
from gymnast.verbs.sweep.asked import base_of, make_plan
from gymnast.verbs.sweep.compare import compare
from gymnast.verbs.sweep.plan import Candidate, Plan
from gymnast.verbs.sweep.search import Search
from gymnast.verbs.sweep.store import Store, area

TRIALS = 16  # as by default
FRESH = 5  # seeds that score a winner
SEEDS = tuple(range(5))  # of the searches


@dataclass(frozen=True)
class Case:
    """A preset with spoilt settings."""

    env: str
    steps: int
    spoilt: tuple[str, ...]


CASES = {
    "frozenlake": Case(
        "FrozenLake-v1:ppo", 60_000, ("algo.learning_rate=lin_1e-4", "algo.gamma=0.8", "algo.n_epochs=1")
    ),
    "cartpole": Case(
        "CartPole-v1:ppo",
        40_000,
        ("algo.learning_rate=lin_3e-5", "algo.gamma=0.8", "algo.clip_range=0.02", "algo.n_epochs=1", "eval.episodes=5"),
    ),
    "pendulum": Case(
        "Pendulum-v1:ppo",
        80_000,
        ("algo.learning_rate=lin_3e-5", "algo.gamma=0.6", "algo.gae_lambda=0.1", "eval.episodes=5"),
    ),
}


class Ended(Exception):
    """Out of a training that is stopped."""


class Training:
    """A job in a thread of this process."""

    def __init__(self, job: Job) -> None:
        self.job, self.news, self.stop = job, SimpleQueue[Event](), Flag()

    def event(self, **facts: Any) -> None:
        if self.stop.is_set():
            raise Ended
        self.news.put(Event("event", facts))

    def __iter__(self) -> Iterator[Event]:
        thread = Thread(target=self._train, daemon=True)
        thread.start()
        while True:
            event = self.news.get()
            yield event
            if event.kind != "event":
                thread.join()
                return

    def _train(self) -> None:
        try:
            story = worker.run(self, **self.job.call)  # type: ignore[arg-type]
            self.news.put(Event("result", story))
        except Ended:
            self.news.put(Event("error", {"why": "stopped"}))
        except Exception as error:
            self.news.put(Event("error", {"why": f"{type(error).__name__}: {error}"}))

    def close(self) -> None:
        self.stop.set()


class Here:
    """A launcher whose jobs are threads of this process: a process for each would take longer than its training."""

    def run(self, job: Job) -> Training:
        return Training(job)

    def room(self, cores: int) -> int:
        return 1


class Pruner:
    """A channel that asks Optuna after every evaluation whether a trial goes on."""

    def __init__(self, trial: optuna.Trial | None = None) -> None:
        self.trial, self.steps, self.seen = trial, 0, 0

    def event(self, steps: int, curve: list[tuple[int, float]], **facts: Any) -> None:
        self.steps = steps
        if self.trial is not None and len(curve) > self.seen:
            self.seen = len(curve)
            self.trial.report(area(curve, steps), steps)
            if self.trial.should_prune():
                raise optuna.TrialPruned


def train(plan: Plan, candidate: Candidate, seed: int, folder: Path, channel: Pruner) -> float:
    """The score of a whole training."""
    config = configs.override(candidate.config, [f"train.seed={seed}"])
    place = folder / f"{candidate.id}-s{seed}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        story = worker.run(channel, config.model_dump(mode="json"), plan.steps, str(place))  # type: ignore[arg-type]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return area(story["curve"], plan.steps)


def by_gymnast(plan: Plan, folder: Path) -> tuple[Candidate, int, list[Any]]:
    """The winner, the env steps of the search, and what it saw of each config."""
    store = Store(folder / "sweep")
    store.open(plan)
    try:
        work = Search(plan, store, Here(), TRIALS, 1, None, SILENT)
        winner = work.search()[0]
        steps = sum(record.steps for record in store.records.values())
        return winner, steps, [asdict(standing) for standing in work.standings()]
    finally:
        store.close()


def by_optuna(plan: Plan, folder: Path, budget: int) -> tuple[Candidate, int, list[Any]]:
    """The same."""
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=plan.seed), pruner=optuna.pruners.MedianPruner()
    )
    distributions = {dim.name: dim.distribution() for dim in plan.space}
    made = 0
    while made < budget:
        trial = study.ask(distributions)
        candidate = candidate_of(plan, trial.params)
        channel = Pruner(trial)
        try:
            study.tell(trial, train(plan, candidate, plan.search_seeds[0], folder, channel))
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        made += channel.steps
    seen = [{"values": trial.params, "score": trial.value} for trial in study.trials]  # no score: it was pruned
    return candidate_of(plan, study.best_params), made, seen


def candidate_of(plan: Plan, params: dict[str, Any]) -> Candidate:
    return plan.candidate({dim.key: dim.value(params[dim.name]) for dim in plan.space})


def one(name: str, seed: int, out: Path) -> dict[str, Any]:
    """A sweep and a study of Optuna, and what fresh seeds say about both."""
    case, folder = CASES[name], out / f"{name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    base = base_of(case.env, None, case.spoilt, case.steps, folder)
    plan, _ = make_plan(base, search=[], space=None, sampler="tpe", seed=seed, seeds=FRESH, against=None)
    found: dict[str, Any] = {"case": name, "env": case.env, "spoilt": case.spoilt, "seed": seed, "steps": case.steps}
    began, budget = monotonic(), 0
    for who in ("sweep", "optuna"):
        winner, made, seen = by_gymnast(plan, folder) if who == "sweep" else by_optuna(plan, folder, budget)
        budget = budget or made
        fresh = [train(plan, winner, at, folder, Pruner()) for at in plan.fresh_seeds]
        found[who] = {"settings": winner.values, "env_steps": made, "scores": fresh, "seen": seen}
    found["seconds"] = monotonic() - began
    shutil.rmtree(folder)
    return found


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: a line a pair of searches, and how often the sweep was better."""
    lines = [
        "| case | seed | sweep: configs, env steps | Optuna: configs, env steps | sweep, 5 fresh seeds | Optuna | "
        "difference [95 % interval] |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        ours, theirs = one["sweep"], one["optuna"]
        gain = compare(ours["scores"], theirs["scores"]).difference
        cost = [f"{len(side['seen'])}, {number(side['env_steps'])}" for side in (ours, theirs)]
        means = [number(fmean(side["scores"])) for side in (ours, theirs)]
        difference = f"{number(gain.value)} [{number(gain.low)}, {number(gain.high)}]"
        lines.append("| " + " | ".join([one["case"], str(one["seed"]), *cost, *means, difference]) + " |")
    better = sum(fmean(one["sweep"]["scores"]) >= fmean(one["optuna"]["scores"]) for one in found)
    return "\n".join([*lines, "", f"The sweep's winner has the higher or the same mean in {better} of {len(found)}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results, one JSON file each")
    parser.add_argument("--only", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--table", action="store_true", help="only show what is there")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        for seed in options.seeds:
            path = options.out / f"{name}-{seed}.json"
            if not path.exists() and not options.table:
                found = one(name, seed, options.out)
                write_json(path, found)
                for who in ("sweep", "optuna"):
                    winner = ", ".join(assignment(*item) for item in found[who]["settings"].items())
                    print(f"{name} {seed} {who}: {number(fmean(found[who]['scores']))} {winner}", file=sys.stderr)
    paths = [options.out / f"{name}-{seed}.json" for name in CASES for seed in SEEDS]
    print(table([read_json(path) for path in paths if path.exists()]))


if __name__ == "__main__":
    main()
