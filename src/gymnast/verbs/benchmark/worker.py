"""One run of `gymnast benchmark`, in a process of its own: exactly what `gymnast train` does, and its whole story.

The first line of standard input is the job. Every row of metrics is answered with how far it is, the end with what
came of it. When the other end is gone, killed or not, so is this.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.seeds import derive_seed
from gymnast.judge.evaluate import evaluate
from gymnast.metrics.clock import TrainingTime
from gymnast.training.build import build
from gymnast.training.record import new_run, record, versions
from gymnast.training.rows import Row

Tell = Callable[[dict[str, Any]], None]


class Watch:
    """The story of a run, from its rows."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.time = TrainingTime()
        self.steps = 0
        self.curve: list[tuple[int, float, float]] = []
        self.solved: tuple[int, float] | None = None
        self.exact: float | None = None

    def __call__(self, row: Row) -> None:
        seconds = self.time.add(row)
        self.steps = int(row["time/total_timesteps"])
        if "eval/mean_reward" in row:
            self.curve.append((self.steps, row["eval/mean_reward"], seconds))
        if self.solved is None and row["solved"]:
            self.solved = self.steps, seconds
        if "verdict/mean" in row:
            self.exact = row.get("verdict/exact_value")  # of tabular envs: what the judged policy is worth
        self.tell({"steps": self.steps})


def run(job: dict[str, Any], tell: Tell) -> dict[str, Any]:
    config = configs.validate(job["config"])
    session = build(config, job["threshold"])
    watch = Watch(tell)
    final = None
    try:
        result = record(session, new_run(config, None, Path(job["folder"])), quiet=True, observer=watch)
        if result.stop_reason == "interrupted":
            raise UserError("interrupted before its end.")
        if job["final"]:
            seed = derive_seed(config.train.seed, "benchmark")
            final = evaluate(session.net, session.judge.env, config.stop.episodes, seed).returns.tolist()
    finally:
        session.close()
    return {
        "env_steps": watch.steps,
        "seconds": watch.time.seconds,
        "verdict": result.verdict.evaluation.returns.tolist() if result.verdict else None,
        "final": final,
        "exact_value": watch.exact,
        "solved_at": watch.solved,
        "curve": watch.curve,
        "versions": versions(),
    }


def end_with_parent() -> None:
    """Standard input ends when the process at its other end does, however that happens."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")  # the real standard output: what an env prints goes to standard error
    os.dup2(2, 1)

    def tell(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    job = json.loads(sys.stdin.readline())
    end_with_parent()
    try:
        tell({"done": run(job, tell)})
    except (UserError, EnvFailure) as error:
        tell({"error": str(error)})


if __name__ == "__main__":
    main()
