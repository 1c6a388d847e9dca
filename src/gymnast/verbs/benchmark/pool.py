"""The runs of a benchmark, in processes of their own, several at a time."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gymnast import config as configs
from gymnast.jobs.pool import ENDS, Events, Launcher, run_all
from gymnast.jobs.worker import Event, Job
from gymnast.verbs.benchmark.plan import OURS, Task
from gymnast.verbs.remote.needs import resources_of
from gymnast.verbs.speed.libraries import Baseline


@dataclass(frozen=True, eq=False)
class Trial:
    """One run to do."""

    task: Task
    seed: int
    baseline: Baseline | None
    run: Path | None  # the folder of ours, in the runs folder; none is left of one that was cut short

    @property
    def who(self) -> str:
        return OURS if self.baseline is None else self.baseline.name

    @property
    def name(self) -> str:
        return f"{self.task.row.target}{'' if self.baseline is None else f' ({self.who})'} seed {self.seed}"

    @property
    def steps(self) -> int:
        return self.task.config.train.total_timesteps

    def job(self) -> Job:
        config, threshold, final = self.task.config, self.task.threshold, self.task.row.equal_steps
        if self.baseline is None:
            seeded = configs.override(config, [f"train.seed={self.seed}"])
            facts = {**self.task.facts, "command": shlex.split(self.task.row.command([self.seed]))}
            arguments = {
                "config": seeded.model_dump(mode="json"),
                "threshold": threshold,
                "final": final,
                "facts": facts,
            }
            cores = config.train.threads or 1
            work = "gymnast.verbs.benchmark.worker:run"
            return Job(work, arguments, cores=cores, resources=resources_of(config), folder=self.run)
        asked = {
            "seed": self.seed,
            "threads": config.train.threads,
            "every": config.eval_every,
            "episodes": config.eval.episodes,
            "threshold": threshold,
            "verdict_episodes": config.stop.episodes,
            "on_solved": config.stop.on_solved,
            "final": final,
        }
        return self.baseline.run("benchmark", asked=asked)


def run_trials(trials: Sequence[Trial], at_once: int, launcher: Launcher) -> Generator[tuple[Trial, Event], None, None]:
    """What the runs report as they go: how many `steps` they have done, and in the end a result or an error."""

    begun: set[Trial] = set()

    def launch(trial: Trial) -> Events:
        begun.add(trial)
        return launcher.run(trial.job())

    try:
        with closing(run_all(trials, at_once, launch)) as events:
            for trial, event in events:
                if event.kind in ENDS:
                    begun.discard(trial)
                yield trial, event
    finally:
        for trial in begun:
            if trial.run is not None:
                shutil.rmtree(trial.run, ignore_errors=True)
