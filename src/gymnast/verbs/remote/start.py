"""`gymnast train|resume --on WHERE`: starts a run elsewhere and shows it while its files arrive."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import EnvFailure, Stopped, UserError
from gymnast.jobs.worker import Job, Worker, WorkerLost
from gymnast.runs.archive import zip_run
from gymnast.runs.folder import new_token, run_id
from gymnast.runs.references import Run, runs_dir_option
from gymnast.verbs.remote.needs import needs_of
from gymnast.verbs.remote.watch import watch
from gymnast.verbs.result import Launched, Scored
from gymnast.verbs.train import Order, result_of, to_text

if TYPE_CHECKING:
    from gymnast.config import RunConfig

TRAIN, HOLD = "gymnast.verbs.remote.work:train", "gymnast.verbs.remote.follow:hold"
Say = Callable[[str], None]


def train_elsewhere(
    order: Order, config: RunConfig, runs_dir: Path, on: str, detach: bool, quiet: bool, say: Say
) -> Scored:
    run = new_folder(config, runs_dir)
    job = {"work": TRAIN, "arguments": {"order": asdict(order)}, **needs_of(config)}
    return carry_out_elsewhere(run, job, config, on, detach, quiet, say)


def resume_elsewhere(
    origin: Run,
    path: Path,
    config: RunConfig,
    asked: dict[str, Any] | None,
    runs_dir: Path,
    on: str,
    detach: bool,
    quiet: bool,
    say: Say,
) -> Scored:
    """`asked`: what makes it a new run; None: the same run goes on."""
    job: dict[str, Any] = {"work": TRAIN, "arguments": {}, **needs_of(config)}
    if asked is None:
        return carry_out_elsewhere(origin, job, config, on, detach, quiet, say)
    with tempfile.TemporaryDirectory() as place:
        zipped = zip_run(origin, Path(place), without=("videos",)).path.read_bytes()
    job["arguments"] = {"again": {**asked, "origin": to_text(zipped), "checkpoint": path.stem}}
    return carry_out_elsewhere(new_folder(config, runs_dir), job, config, on, detach, quiet, say)


def new_folder(config: RunConfig, runs_dir: Path) -> Run:
    """Of a run that does not exist yet. Nothing is made here before it has begun there."""
    return Run(runs_dir / run_id(new_token(runs_dir), config.env.id, config.algo.name, config.train.seed))


def carry_out_elsewhere(
    run: Run, job: dict[str, Any], config: RunConfig, on: str, detach: bool, quiet: bool, say: Say
) -> Scored:
    """From the start there to the end here. Ctrl-C ends this command and not the run."""
    facts = {"command": ["gymnast", *sys.argv[1:]]} if not run.path.exists() else {}
    worker = Worker(
        Job(HOLD, {"on": on, "folder": str(run.path.absolute()), "facts": facts, "job": job}), outlives=True
    )
    wait_for_begin(worker, on, say)
    where = runs_dir_option(run.path.parent)
    commands = [
        (f"gymnast runs follow {run.read().token}{where}", "see it here again"),
        (f"gymnast runs stop {run.read().token}{where}", "end it with a checkpoint"),
    ]
    if detach:
        return Launched({"run": run.id, "on": on}, run.id, config, None, commands)
    say(f"{run.id} is trained on {on}. Ctrl-C ends this command and not the run.")
    return see(run, config, worker, quiet)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """A run that is trained elsewhere is stopped, or goes on with a word about it, however its command is ended."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@sigterm_as_ctrl_c()
def wait_for_begin(worker: Worker, on: str, say: Say) -> None:
    say(f"waiting for {on} ...")
    try:
        while (event := worker.hear(None)) is not None and "begun" not in event.data:
            if "placed" in event.data:
                say(f"it begins on {event.data['placed']}")
    except KeyboardInterrupt:
        worker.give({"stop": True})
        try:
            worker.wait_for("result")
        except WorkerLost as lost:
            raise Stopped(str(lost)) from None
        raise


@sigterm_as_ctrl_c()
def see(run: Run, config: RunConfig, worker: Worker | None, quiet: bool) -> Scored:
    """A run that is trained elsewhere, until it ends."""
    try:
        why = watch(run, config, worker, quiet)
    except KeyboardInterrupt:
        token, where = run.id.partition("-")[0], runs_dir_option(run.path.parent)
        raise Stopped(
            f"{run.id} goes on. See it: gymnast runs follow {token}{where}. Stop it: gymnast runs stop {token}{where}."
        ) from None
    if run.read().status == "crashed":
        raise EnvFailure(why or f"run {run.id} crashed; see {run.log_path}.")
    if why is not None:  # its cluster, or the way to it
        raise UserError(why)
    return result_of(run, config)


def follow_run(run: Run, quiet: bool = False) -> Scored:
    """`gymnast runs follow`: brings what is missing, then shows it until it ends."""
    from gymnast import config as configs

    info = run.read()
    config = configs.load(str(run.config_path)).config
    if info.status != "running":
        return result_of(run, config)
    if info.on is None:
        token, where = run.id.partition("-")[0], runs_dir_option(run.path.parent)
        raise UserError(f"run {run.id} is trained on this machine. See it: gymnast runs show {token}{where}.")
    worker = None
    if not run.is_held:
        worker = Worker(Job(HOLD, {"on": info.on, "folder": str(run.path.absolute()), "facts": {}}), outlives=True)
        while (event := worker.hear(None)) is not None and "begun" not in event.data and event.kind != "result":
            pass
    return see(run, config, worker, quiet)


def is_left_alone(run: Run) -> bool:
    """Whether it is trained elsewhere, and no process brings its files."""
    info = run.read()
    # a folder from somewhere else could name a cluster that sends code: this machine connects to none for it
    return info.on is not None and info.status == "running" and info.is_own and not run.is_held


def bring(run: Run) -> None:
    """What is there now, of a run that nobody follows."""
    info = run.read()
    if is_left_alone(run):
        job = Job(HOLD, {"on": info.on, "folder": str(run.path.absolute()), "facts": {}, "once": True})
        with Worker(job) as worker:
            worker.wait_for("result")
