"""`gymnast train|resume`: config to session to run folder to the loop to a result."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gymnast import config as configs
from gymnast.alerts.advice import Origin
from gymnast.config.load import SPACES
from gymnast.core.errors import EnvFailure, UserError
from gymnast.jobs.launchers import is_local
from gymnast.runs.references import Run, SavedFile, resolve_checkpoint, runs_dir_option
from gymnast.sinks.trackers.sink import require_sinks
from gymnast.training.record import new_run, record, solved_threshold, summary_of
from gymnast.verbs.result import Scored

if TYPE_CHECKING:
    from gymnast.config import Resolved, RunConfig
    from gymnast.runs.checkpoint import Checkpoint
    from gymnast.training.state import TrainState

ADVISED = 4  # commands that a result advises


def resolve_config(
    target: str,
    overrides: Sequence[str],
    seed: int | None = None,
    steps: int | None = None,
    valid: Callable[[], None] = lambda: None,
) -> Resolved:
    """The config a user means, complete: preset or defaults for the env's spaces, then their own settings. `valid` is
    called when there is no mistake in it, before an env is made to see its spaces."""
    resolved = configs.load(target, overrides, seed=seed, steps=steps, require_env=require_env)
    valid()
    if not resolved.generic:
        return resolved
    from gymnast.envs.make import space_defaults

    return configs.with_space_defaults(resolved, space_defaults(resolved.config.env))


def require_env(env_id: str) -> None:
    """Gymnasium is slow to import, and asked only about an env without a preset."""
    from gymnast.envs.suites import find_spec

    find_spec(env_id)


@dataclass(frozen=True)
class Order:
    """A run to be trained, with everything settled that can be: as JSON it goes to wherever it is trained."""

    config: dict[str, Any]
    threshold: float | None
    target: str
    settings: list[str]  # what the user has set
    facts: dict[str, Any]  # for run.json
    init: str | None = None  # the checkpoint that its first layers come from, as text


class Begun(NamedTuple):
    """A run that can be trained, from step 0 or from where a checkpoint left it."""

    session: TrainState
    run: Run
    notes: list[str]


def start(
    target: str,
    overrides: Sequence[str],
    runs_dir: Path,
    seed: int | None = None,
    steps: int | None = None,
    init_from: str | None = None,
    quiet: bool = False,
    track: Sequence[str] = (),
    name: str | None = None,
    tags: Sequence[str] = (),
    on: str | None = None,
    detach: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Scored:
    """`gymnast train`: a new run, from its config to its verdict. `say` takes what is said before a run can do so."""
    local = stays_here(on, detach)
    order = settle(target, overrides, runs_dir, seed, steps, init_from, track, name, tags, say, local)
    if not local:
        from gymnast.verbs.remote.start import train_elsewhere

        return train_elsewhere(order, configs.validate(order.config), runs_dir, str(on), detach, quiet, say)
    return carry_out(*begin(order, runs_dir), quiet)


def stays_here(on: str | None, detach: bool) -> bool:
    local = is_local(on)
    if local and detach:
        raise UserError("--detach: needs --on WHERE; here a run ends with its command. See `gymnast train --help`.")
    return local


def settle(
    target: str,
    overrides: Sequence[str],
    runs_dir: Path,
    seed: int | None = None,
    steps: int | None = None,
    init_from: str | None = None,
    track: Sequence[str] = (),
    name: str | None = None,
    tags: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
    local: bool = True,
) -> Order:
    """What a user asks for, without a mistake in it."""
    if name is not None and not re.fullmatch(r"[^@/,\s][^/,\s]*", name):
        raise UserError(f"--name {name!r}: a name is one word without '/' and ',' that does not begin with '@'.")
    resolved = resolve_config(target, overrides, seed, steps, lambda: say(f"starting {target} ..."))
    if track:
        sinks = list(dict.fromkeys([*resolved.config.log.sinks, *track]))
        overrides = [*overrides, f"log.sinks=[{', '.join(sinks)}]"]
        resolved = resolve_config(target, overrides, seed, steps)
    if local:
        require_sinks(resolved.config.log.sinks)
    threshold = solved_threshold(resolved.config, resolved.facts)
    other = None if init_from is None else resolve_checkpoint(init_from, runs_dir)  # before torch is imported
    usual = configs.diff(configs.load(target).config, resolved.config)
    changed = {key: b for key, _, b in usual if key != "train.seed" and resolved.source(key) != SPACES}
    parent, init = (None, None) if other is None else (name_of(*other), to_text(other[1].read_bytes()))
    facts = {"variant": resolved.variant, "parent": parent, "name": name, "tags": list(dict.fromkeys(tags))}
    return Order(
        resolved.config.model_dump(mode="json"),
        threshold,
        target,
        [*overrides, *shortcuts(seed, steps)],
        {**facts, "changed": changed},
        init,
    )


def begin(order: Order, runs_dir: Path, token: str | None = None) -> Begun:
    """A new run at step 0. `token`: the beginning of its id, where that was chosen on another machine."""
    from gymnast.runs import checkpoint
    from gymnast.runs.saved_agent import init_agent_from
    from gymnast.training.build import build

    config = configs.validate(order.config)
    session = build(config, order.threshold)
    notes: list[str] = []
    if order.init is not None:
        parent = order.facts["parent"]
        saved = checkpoint.load(parent, base64.b64decode(order.init))
        taken, left = init_agent_from(session.agent, saved.agent, saved.env_id == config.env.id)
        if not taken:
            raise UserError(f"--init-from {parent}: no layer of it fits this agent by name and shape.")
        notes.append(f"initialised from {parent}: {', '.join(taken)}")
        if left:
            notes.append(f"not copied: {', '.join(left)}")
        session.alerts.known.fresh = False
    session.alerts.known.origin = Origin(order.target, tuple(order.settings))
    run = new_run(config, runs_dir=runs_dir, token=token, **order.facts)
    return Begun(session, run, notes)


def name_of(origin: Run, path: Path) -> str:
    """A checkpoint, as run.json names where a run has come from."""
    return str(path) if isinstance(origin, SavedFile) else f"{origin.id}/{path.stem}"


class Found(NamedTuple):
    """A run to go on with, and what is asked of it."""

    origin: Run
    path: Path  # of the checkpoint
    saved: Checkpoint
    updated: str  # when the run was last changed
    config: RunConfig
    changed: Sequence[tuple[str, Any, Any]]
    continues: bool  # else a new run begins from there
    overrides: list[str]
    steps: int | None
    reset_optimizer: bool


def resume(
    ref: str,
    overrides: Sequence[str],
    runs_dir: Path,
    reset_optimizer: bool = False,
    quiet: bool = False,
    steps: int | None = None,
    on: str | None = None,
    detach: bool = False,
    token: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Scored:
    """`gymnast resume`: the same run goes on; with changed settings a new run goes on from where it was."""
    local = stays_here(on, detach)
    found = find(ref, overrides, runs_dir, reset_optimizer, steps, say)
    if not local:
        from gymnast.verbs.remote.start import resume_elsewhere

        asked = None if found.continues else {"overrides": found.overrides, "steps": steps, "reset": reset_optimizer}
        return resume_elsewhere(found.origin, found.path, found.config, asked, runs_dir, str(on), detach, quiet, say)
    return carry_out(*go_on(found, runs_dir, token, say=say), quiet)


def find(
    ref: str,
    overrides: Sequence[str],
    runs_dir: Path,
    reset_optimizer: bool = False,
    steps: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    fork: bool = False,
    ended_too: bool = False,
) -> Found:
    """`fork`: a new run even if nothing is changed; `ended_too`: also one that has reached its end."""
    from gymnast.runs import checkpoint

    origin, path = resolve_checkpoint(ref, runs_dir, prefer="last")
    if isinstance(origin, SavedFile):
        raise UserError(
            f"{path} is a model that was saved from Python, not a run: gymnast.load({str(path)!r}).learn(...)."
        )
    if origin.live():
        raise UserError(f"run {origin.id} is being trained right now; stop it before resuming it.")
    say(f"resuming {origin.id} ...")
    updated = origin.read().updated  # before the checkpoint: whoever continues the run meanwhile changes it
    saved = checkpoint.load(path)
    saved.require_training_state()
    config = configs.override(saved.config, overrides, steps)
    made = saved.state["counters"].get("env_steps", 0)
    if steps is not None and steps < made:
        raise UserError(f"--steps {steps}: run {origin.id} has made {made:,} steps, and --steps counts them. Use more.")
    changed = configs.diff(saved.config, config)
    continues = not changed and not reset_optimizer and path.stem == "last" and not fork
    if continues and not ended_too and (over := why_over(origin, saved.state, config)) is not None:
        raise UserError(over)
    return Found(origin, path, saved, updated, config, changed, continues, list(overrides), steps, reset_optimizer)


def go_on(
    found: Found,
    runs_dir: Path,
    token: str | None = None,
    tags: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> Begun:
    """A run where its checkpoint left it. `token`: the beginning of a new run's id, where that was chosen on another
    machine; `tags`: of a new run, in addition to those of the old one."""
    origin, path, saved, updated, config, changed, continues, overrides, steps, reset_optimizer = found
    require_sinks(config.log.sinks)

    from gymnast.training.build import build
    from gymnast.training.state import restore

    threshold = solved_threshold(config, configs.load_facts(config.env.id)) if changed else saved.state["threshold"]
    session = build(config, threshold)
    notes = restore(session, saved.tensors, saved.state, not reset_optimizer, say)
    step = session.counters.env_steps
    if changed:
        session.plan()
    if continues:
        run = origin
        run.start(updated)  # from here on nobody else may: its files are changed
        run.update(resumed_at=[*run.read().resumed_at, step])
        notes.insert(0, f"resumed {run.id} at {step:,} steps")
    else:
        old = origin.read()
        now = None if old.changed is None else old.changed | {key: b for key, _, b in changed}
        parent = f"{origin.id}/{path.stem}"
        marks = list(dict.fromkeys([*old.tags, *tags]))
        run = new_run(config, old.variant, runs_dir, parent, origin, tags=marks, changed=now, token=token)
        if session.judge.best_agent is not None:  # the best so far is part of what goes on
            for file in origin.checkpoints_dir.glob("best.*"):
                shutil.copy2(file, run.checkpoints_dir)
        what = ", ".join(f"{key}: {old} -> {new}" for key, old, new in changed) or f"from {path.stem}"
        notes.insert(0, f"a new run from {origin.id} at {step:,} steps ({what})")
        judged = session.judge.record  # the best agent so far may be judged again, by what holds now
        judged.solved = judged.on_target = judged.best_judged = False
        session.alerts.forget(fresh=False)
        if (start := session.alerts.known.origin) is not None:
            session.alerts.known.origin = Origin(start.target, (*start.settings, *overrides, *shortcuts(None, steps)))
    from gymnast.sinks.jsonl import JsonlSink

    JsonlSink.truncate(run.metrics_path, step)
    JsonlSink.truncate(run.diagnostics_path, step)
    return Begun(session, run, notes)


def to_text(data: bytes) -> str:
    """Bytes as JSON can hold them."""
    return base64.b64encode(data).decode()


def shortcuts(seed: int | None, steps: int | None) -> list[str]:
    """--seed and --steps as settings."""
    settings = {"train.seed": seed, "train.total_timesteps": steps}
    return [f"{key}={value}" for key, value in settings.items() if value is not None]


def why_over(run: Run, state: dict[str, Any], config: RunConfig) -> str | None:
    """A run that has reached its end has nothing to resume."""
    judged, target = state["judge"], config.stop.target
    if config.stop.on_solved and (judged.get("on_target") or (judged.get("solved") and target is None)):
        how = "is solved" if target is None else f"has reached its target of {target:g}"
        return f"run {run.id} {how}; there is nothing to resume. Go on anyway with --set stop.on_solved=false."
    counters = state["counters"]
    if counters.get("env_steps", 0) >= config.train.total_timesteps and not counters.get("unjudged"):
        return (
            f"run {run.id} has done its {config.train.total_timesteps:,} steps. "
            f"Train longer with --steps {2 * config.train.total_timesteps}."
        )
    return None


def carry_out(session: TrainState, run: Run, notes: Sequence[str], quiet: bool) -> Scored:
    """Trains into the run's folder."""
    resumed_at = session.counters.env_steps or None
    try:
        result = record(session, run, notes, quiet)
    except EnvFailure as failure:
        steps = [f"  {command}  # {why}" for command, why in next_commands(run)[:2]]
        raise EnvFailure("\n".join([str(failure), "What next:", *steps])) from failure
    finally:
        session.close()
    alerts = session.alerts.alerts
    data = {
        "run": run.id,
        **summary_of(session, result),
        "resumed_at": resumed_at,
        "alerts": [alert.to_json() for alert in alerts],
    }
    return Scored(data, run.id, session.config, session.judge.threshold, next_commands(run), alerts)


def next_commands(run: Run) -> list[tuple[str, str]]:
    """The first of what the report advises, and the report itself."""
    from gymnast.report.next_steps import next_steps
    from gymnast.report.run_facts import RunFacts

    token, where = run.id.split("-")[0], runs_dir_option(run.path.parent)
    page = (f"gymnast report {token}{where}", "all about this run on a page; --html: with pictures")
    return [*next_steps(RunFacts(run))[:ADVISED], page]
