"""`gymnast autotune`: from a target or a run to settings that solve it, or to a spent budget."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gymnast import config as configs
from gymnast.config.files import is_preset
from gymnast.config.layers import split_target
from gymnast.core.errors import Stopped, UserError
from gymnast.core.files import parse_json
from gymnast.core.text import setting as as_text
from gymnast.core.trust import allow
from gymnast.core.typed import typed
from gymnast.runs.references import Run, SavedFile, resolve, resolve_checkpoint, runs_dir_option
from gymnast.verbs.autotune.budget import Budget, parse_budget
from gymnast.verbs.autotune.journal import Journal, Line
from gymnast.verbs.autotune.page import write_page
from gymnast.verbs.autotune.segment import STOPPED, TAG, Segment, Trainer
from gymnast.verbs.autotune.tuner import Side, Tuner
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.train import resolve_config
from gymnast.verbs.variant_file import write_variant

if TYPE_CHECKING:
    from gymnast.config import RunConfig

RUNS = 10  # of a run's steps: the budget, where none is given


class Asked(NamedTuple):
    """What stood on the command line; a run by its id."""

    target: str
    overrides: tuple[str, ...]
    seed: int | None


class _Start(TypedDict):
    asked: Asked


START = TypeAdapter(_Start)


@dataclass(frozen=True)
class Subject:
    """What is tuned: a target with settings on top, from step 0 or from a run's checkpoint."""

    asked: Asked
    target: str
    overrides: tuple[str, ...]
    config: RunConfig
    first: Segment
    name: str  # of its folder


@dataclass(frozen=True)
class Autotuned:
    """How it ended."""

    name: str
    solved: bool
    reproduced: bool  # the settings alone solve it, from step 0, with this seed
    run: str
    score: float | None  # of its verdict where there is one, else of its best evaluation
    env_steps: int  # of that run
    settings: dict[str, Any]  # that were kept, on top of the target
    config: Path  # a YAML file with them
    command: str
    journal: Path
    decisions: list[Line]
    used_steps: int
    used_seconds: float
    budget: str

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "config": str(self.config), "journal": str(self.journal)}


def autotune(
    target: str,
    overrides: Sequence[str] = (),
    *,
    budget: str | None = None,
    seed: int | None = None,
    trust: bool = False,
    tags: Sequence[str] = (),
    runs_dir: Path,
    progress: Progress = SILENT,
) -> Autotuned:
    """`trust`: what the run or its file names is imported, wherever it was made; `tags`: of its runs, in addition to
    its own."""
    allowed = None if budget is None else parse_budget(budget)  # before anything is made
    if trust:
        allow(run.path if (run := run_named(target, runs_dir)) is not None else split_target(target)[0])
    start = start_of(target, overrides, seed, runs_dir)
    refuse(start.config)
    total = start.config.train.total_timesteps
    allowed = allowed or Budget(steps=RUNS * total)
    if allowed.steps is not None and allowed.steps < start.config.rollout_steps:
        rollout = start.config.rollout_steps
        raise UserError(f"--budget {budget}: less than one rollout of {rollout} steps, which is the least to train.")
    with closing(Journal(runs_dir / TAG / start.name)) as journal:
        progress.plan(allowed.total)
        progress.say(f"autotuning {start.target}, budget {allowed.text()}; journal in {journal.folder}")
        journal.once("start", asked=start.asked._asdict(), target=start.target, overrides=start.overrides)
        trainer = Trainer(start.target, start.overrides, start.asked.seed, runs_dir, (TAG, start.name, *tags))
        tuner = Tuner(trainer, journal, allowed, progress, total, start.config.rollout_steps, start.first)
        try:
            side = tuner.run()
        except KeyboardInterrupt:  # between two stretches of training
            raise Stopped(STOPPED) from None
        result = result_of(start, tuner, side, runs_dir)
        journal.write("end", **{key: value for key, value in result.to_json().items() if key != "decisions"})
        write_page(journal)
    return result


def start_of(target: str, overrides: Sequence[str], seed: int | None, runs_dir: Path) -> Subject:
    run = run_named(target, runs_dir)
    if run is not None:
        return start_from_run(target, run, overrides, seed, runs_dir)
    config = resolve_config(target, overrides, seed).config
    first = Segment(config.train.total_timesteps, watched=True)
    asked = Asked(target, tuple(overrides), seed)
    return Subject(asked, target, asked.overrides, config, first, name_of(target, overrides, config.train.seed))


def run_named(target: str, runs_dir: Path) -> Run | None:
    """The run that a target names; None where it names an env or a file."""
    base = split_target(target)[0]
    if base.endswith((".yaml", ".yml")) or is_preset(base):
        return None
    if target.startswith("@") or (runs_dir.is_dir() and any(runs_dir.glob("*/run.json"))):
        try:
            return resolve(target, runs_dir)
        except UserError:
            if target.startswith("@"):
                raise
    return None


def start_from_run(target: str, run: Run, overrides: Sequence[str], seed: int | None, runs_dir: Path) -> Subject:
    """A new run goes on from the run's last checkpoint; the run itself does not change."""
    from gymnast.runs import checkpoint

    info = run.read()
    if TAG in info.tags and info.is_own:
        asked = asked_before(runs_dir / TAG / info.tags[info.tags.index(TAG) + 1])
        if (tuple(overrides), seed) in ((asked.overrides, asked.seed), ((), None)):
            return start_of(asked.target, asked.overrides, asked.seed, runs_dir)
        raise UserError(f"{target}: run {run.id} belongs to an autotuning of {asked.target} with other settings.")
    if seed is not None:
        raise UserError(f"--seed {seed}: a run goes on with its own seed. Leave it out, or name an env.")
    origin, path = resolve_checkpoint(target, runs_dir, prefer="last")
    if isinstance(origin, SavedFile):
        raise UserError(f"{path} is a model that was saved from Python, not a run. Name a run or an env.")
    saved = checkpoint.load(path)
    saved.require_training_state()
    typed_then = saved.state["alerts"]["origin"]
    if typed_then is None:
        raise UserError(f"run {origin.id} was not started by a command. Name its env: gymnast autotune {saved.env_id}.")
    config, step = configs.override(saved.config, overrides), saved.state["counters"]["env_steps"]
    total = config.train.total_timesteps
    until = total if step < total else step + total
    changed = {key: after for key, _, after in configs.diff(saved.config, config)} | {"train.total_timesteps": until}
    first = Segment(until, parent=f"{origin.id}/{path.stem}", settings=changed, watched=True, began=step)
    settings = (*typed_then["settings"], *overrides)
    name = name_of(origin.id, overrides, config.train.seed)
    return Subject(Asked(origin.id, tuple(overrides), None), typed_then["target"], settings, config, first, name)


def asked_before(folder: Path) -> Asked:
    """What an autotuning was started with: `@last` names one of its own runs by now, and means to go on with it."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines() if folder.is_dir() else []
    if not lines:
        raise UserError(f"{folder}: the journal of this autotuning is gone. Name the env instead.")
    try:
        return typed(START, parse_json(lines[0]))["asked"]
    except ValueError as error:
        raise UserError(f"{folder}: its journal cannot be read: {error}. Name the env instead.") from None


def refuse(config: RunConfig) -> None:
    for key in ("tasks", "stages"):
        if getattr(config, key):
            raise UserError(f"autotune: {key}: a run with {key} cannot be tuned. Tune one of its envs alone.")


def name_of(target: str, overrides: Sequence[str], seed: int) -> str:
    """The same for the same command, whatever its budget."""
    said = json.dumps([target, list(overrides), seed]).encode()
    words = re.sub(r"[^A-Za-z0-9]+", "-", Path(target).stem if target.endswith((".yaml", ".yml")) else target)
    return f"{words.strip('-').lower()[:40]}-{hashlib.sha256(said).hexdigest()[:6]}"


def result_of(start: Subject, tuner: Tuner, side: Side, runs_dir: Path) -> Autotuned:
    outcome, settings = side.outcome, side.settings
    path = tuner.journal.folder / "config.yaml"
    kept = [text for text in start.overrides if text.partition("=")[0].strip() not in settings]
    overrides = [*kept, *(f"{key}={as_text(value)}" for key, value in settings.items())]
    found = resolve_config(start.target, overrides).config  # the command has the seed
    said = "solved" if outcome.solved else "not solved"
    said += "" if side.reproduced or not outcome.solved else ", with other settings before"
    head = f"# Found by `gymnast autotune`: run {outcome.run}, {said}.\n"
    write_variant(path, start.target, found, head)
    command = f"gymnast train {shlex.quote(str(path))} --seed {start.config.train.seed}{runs_dir_option(runs_dir)}"
    return Autotuned(
        name=start.name,
        solved=outcome.solved,
        reproduced=side.reproduced,
        run=outcome.run,
        score=Run(runs_dir / outcome.run).read().score,
        env_steps=outcome.env_steps,
        settings=settings,
        config=path,
        command=command,
        journal=tuner.journal.folder / "journal.md",
        decisions=[line for line in tuner.journal.lines if line["kind"] == "decision"],
        used_steps=tuner.budget.used_steps,
        used_seconds=tuner.budget.used_seconds,
        budget=tuner.budget.text(),
    )
