"""One run of `gymnast benchmark`, in a worker: exactly what `gymnast train` does, and its whole story.

Every row of metrics is an event that says how far the run is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.core.machine import cores, cpu_model
from gymnast.core.seeds import derive_seed
from gymnast.judge.evaluate import evaluate
from gymnast.metrics.clock import TrainingTime
from gymnast.runs import checkpoint
from gymnast.runs.folder import Run
from gymnast.sinks.jsonl import JsonlSink, read_metrics
from gymnast.training.build import build
from gymnast.training.record import new_run, record, versions
from gymnast.training.rows import Row
from gymnast.training.state import restore
from gymnast.verbs.train import why_over

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel
    from gymnast.training.state import TrainState


class Watch:
    """The story of a run, from its rows."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self.report = report
        self.time = TrainingTime()
        self.steps = 0
        self.curve: list[tuple[int, float, float]] = []
        self.solved: tuple[int, float] | None = None
        self.wall = 0.0  # seconds with evaluations and verdicts
        self.solved_wall: float | None = None
        self.exact: float | None = None

    def __call__(self, row: Row) -> None:
        seconds = self.time.add(row)
        self.steps, self.wall = int(row["time/total_timesteps"]), row["time/elapsed"]
        if "eval/mean_reward" in row:
            self.curve.append((self.steps, row["eval/mean_reward"], seconds))
        if self.solved is None and row["solved"]:
            self.solved, self.solved_wall = (self.steps, seconds), self.wall
        if "verdict/mean" in row:
            self.exact = row.get("verdict/exact_value")  # of tabular envs: what the judged policy is worth
        self.report(self.steps)


def run(
    channel: Channel, config: dict[str, Any], threshold: float | None, final: bool, facts: dict[str, Any], folder: str
) -> dict[str, Any]:
    """Trains the run whose folder that is. `final`: whether the last agent is scored, too. A run that has left a
    checkpoint there goes on: the node of a cluster on which it was trained has died."""
    checked = configs.validate(config)
    session = build(checked, threshold)
    watch = Watch(lambda steps: channel.event(steps=steps))
    scores = None
    try:
        training = go_on(session, watch, Run(Path(folder))) or fresh(checked, Path(folder), facts)
        result = record(session, training, quiet=True, observer=watch)
        if result.stop_reason == "interrupted":
            raise UserError("interrupted before its end.")
        if final:
            seed = derive_seed(checked.train.seed, "benchmark")
            scores = evaluate(session.net, session.judge.env, checked.stop.episodes, seed).returns.tolist()
    finally:
        session.close()
    return {
        "env_steps": watch.steps,
        "seconds": watch.time.seconds,
        "verdict": result.verdict.evaluation.returns.tolist() if result.verdict else None,
        "final": scores,
        "exact_value": watch.exact,
        "solved_at": watch.solved,
        "wall": watch.wall,
        "solved_wall": watch.solved_wall,
        "goal": (goal := session.judge.target),
        "on_target": None if goal is None else result.on_target,
        "curve": watch.curve,
        "versions": versions(),
        "machine": {"cpu": cpu_model(), "cores": cores()},
    }


def fresh(config: configs.RunConfig, folder: Path, facts: dict[str, Any]) -> Run:
    """A new run with that folder."""
    shutil.rmtree(folder, ignore_errors=True)
    return new_run(config, runs_dir=folder.parent, token=folder.name.partition("-")[0], **facts)


def go_on(session: TrainState, watch: Watch, run: Run) -> Run | None:
    """The run, the session where its last checkpoint was, and the story so far; None: there is no checkpoint, or the
    run has reached its end."""
    if not run.checkpoint_path("last").exists():
        return None
    saved = checkpoint.load(run.checkpoint_path("last"))
    if why_over(run, saved.state, session.config) is not None:
        return None
    restore(session, saved.tensors, saved.state)
    for path in (run.metrics_path, run.diagnostics_path):
        JsonlSink.truncate(path, session.counters.env_steps)
    for row in read_metrics(run.metrics_path):
        watch(row)
    return run
