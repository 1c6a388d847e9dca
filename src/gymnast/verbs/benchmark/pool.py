"""Runs in processes of their own, several at a time. Whatever ends this process ends them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.verbs.benchmark.plan import OURS, Task
from gymnast.verbs.speed.libraries import Baseline
from gymnast.verbs.speed.process import Worker

COMMAND = [sys.executable, "-m", "gymnast.verbs.benchmark.worker"]

Message = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Job:
    """One run to do."""

    task: Task
    seed: int
    baseline: Baseline | None
    folder: Path  # for what it writes on the way; gone when it ends, or when it is done again after a kill

    @property
    def who(self) -> str:
        return OURS if self.baseline is None else self.baseline.name

    @property
    def name(self) -> str:
        return f"{self.task.row.target}{'' if self.baseline is None else f' ({self.who})'} seed {self.seed}"

    @property
    def steps(self) -> int:
        return self.task.config.train.total_timesteps

    def requests(self) -> list[Message]:
        """The lines its process is told."""
        config = self.task.config
        if self.baseline is None:
            seeded = configs.override(config, [f"train.seed={self.seed}"])
            return [
                {
                    "config": seeded.model_dump(mode="json"),
                    "threshold": self.task.threshold,
                    "final": self.task.row.equal_steps,
                    "folder": str(self.folder),
                }
            ]
        return [
            {
                "seed": self.seed,
                "threads": config.train.threads,
                "every": config.eval_every,
                "episodes": config.eval.episodes,
                "threshold": self.task.threshold,
                "verdict_episodes": config.stop.episodes,
                "on_solved": config.stop.on_solved,
                "final": self.task.row.equal_steps,
            },
        ]


def run_all(jobs: Sequence[Job], at_once: int) -> Generator[tuple[Job, Message], None, None]:
    """What the runs tell as they go: {"steps": n} on the way, {"done": ...} or {"error": ...} at the end of each."""
    waiting, told = list(reversed(jobs)), Queue[tuple[Job, Message]]()
    workers: dict[Job, Worker] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < at_once:
                job = waiting.pop()
                shutil.rmtree(job.folder, ignore_errors=True)
                workers[job] = worker = (
                    Worker(job.name, COMMAND) if job.baseline is None else job.baseline.worker("benchmark")
                )
                Thread(target=_listen, args=(job, worker, told), daemon=True).start()
            job, message = told.get()
            if "steps" not in message:
                workers.pop(job).close()
                shutil.rmtree(job.folder, ignore_errors=True)
            yield job, message
    finally:
        for job, worker in workers.items():
            worker.kill()
            shutil.rmtree(job.folder, ignore_errors=True)


def _listen(job: Job, worker: Worker, told: Queue[tuple[Job, Message]]) -> None:
    for request in job.requests():
        worker.tell(request)
    message: Message = {"steps": 0}
    while "steps" in message:
        try:
            message = worker.hear()
        except UserError as error:
            message = {"error": str(error)}
        told.put((job, message))
