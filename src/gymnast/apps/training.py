"""Starting and resuming runs: config to session to run folder to the loop to a summary."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.envs.probe import registered_threshold, space_kinds
from gymnast.envs.suites.gymnasium import list_env_ids
from gymnast.errors import EnvFailure, UserError
from gymnast.run import Run, create_run, resolve_checkpoint

if TYPE_CHECKING:
    from gymnast.config import Resolved, RunConfig
    from gymnast.metrics.sinks import SinkGroup
    from gymnast.session import Session
    from gymnast.train import Result

PACKAGES = ("gymnast", "torch", "gymnasium", "numpy", "envpool")


def resolve_config(target: str, overrides: Sequence[str]) -> Resolved:
    """The config a user means, complete: preset or defaults for the env's spaces, then their own settings."""
    resolved = configs.load(target, overrides, known_envs=list_env_ids)
    return configs.with_space_defaults(resolved, *space_kinds(resolved.config.env)) if resolved.generic else resolved


def start(
    target: str,
    overrides: Sequence[str],
    runs_dir: Path,
    init_from: str | None = None,
    quiet: bool = False,
    summary: bool = True,
) -> dict[str, Any]:
    """`gymnast train`: a new run, from its config to its verdict."""
    resolved = resolve_config(target, overrides)
    threshold = solved_threshold(resolved.config, resolved.facts)

    from gymnast import checkpoint
    from gymnast.session import build, group, init_agent_from

    session = build(resolved.config, threshold)
    notes: list[str] = []
    parent = None
    if init_from is not None:
        origin, path = resolve_checkpoint(init_from, runs_dir)
        taken, left = init_agent_from(session.agent, group(checkpoint.load(path).tensors, "agent"))
        if not taken:
            raise UserError(f"--init-from {init_from}: no layer of {origin.id} fits this agent by name and shape.")
        notes.append(f"initialised from {origin.id}/{path.stem}: {', '.join(taken)}")
        if left:
            notes.append(f"left as they were, no layer of that name and shape: {', '.join(left)}")
        parent = f"{origin.id}/{path.stem}"
    variant = resolved.target.rpartition(":")[2]
    run = new_run(resolved.config, variant, runs_dir, parent)
    return carry_out(session, run, notes, quiet, summary)


def resume(
    ref: str,
    overrides: Sequence[str],
    runs_dir: Path,
    reset_optimizer: bool = False,
    quiet: bool = False,
    summary: bool = True,
) -> dict[str, Any]:
    """`gymnast resume`: the same run goes on; with changed settings a new run goes on from where it was."""
    from gymnast import checkpoint

    origin, path = resolve_checkpoint(ref, runs_dir, prefer="last")
    if origin.live():
        raise UserError(f"run {origin.id} is being trained right now; stop it before resuming it.")
    saved = checkpoint.load(path)
    before = configs.validate(saved.state["config"])
    config = configs.override(before, overrides)
    changed = configs.diff(before, config)
    continues = not changed and not reset_optimizer and path.stem == "last"
    if continues:
        refuse_if_over(origin, saved.state, config)

    from gymnast.session import build, restore_session

    threshold = solved_threshold(config, configs.load_facts(config.env.id)) if changed else saved.state["threshold"]
    session = build(config, threshold)
    notes = restore_session(session, saved.tensors, saved.state, optimizer=not reset_optimizer)
    step = session.counters.env_steps
    if continues:
        run = origin
        notes.insert(0, f"resumed {run.id} at {step:,} steps")
    else:
        run = new_run(config, origin.read().variant, runs_dir, f"{origin.id}/{path.stem}", history=origin)
        what = ", ".join(f"{key}: {old} -> {new}" for key, old, new in changed) or f"from {path.stem}"
        notes.insert(0, f"a new run from {origin.id} at {step:,} steps ({what})")
        session.counters.solved = False
    from gymnast.metrics.sinks.jsonl import JsonlSink

    JsonlSink.truncate(run.metrics_path, step)
    return carry_out(session, run, notes, quiet, summary)


def refuse_if_over(run: Run, state: dict[str, Any], config: RunConfig) -> None:
    """A run that has reached its end has nothing to resume."""
    counters = state["counters"]
    if counters["solved"] and config.stop.on_solved:
        raise UserError(
            f"run {run.id} is solved; there is nothing to resume. Go on anyway with --set stop.on_solved=false."
        )
    if counters["env_steps"] >= config.train.total_timesteps:
        raise UserError(
            f"run {run.id} has done its {config.train.total_timesteps:,} steps. "
            f"Train longer with --steps {2 * config.train.total_timesteps}."
        )


def new_run(
    config: RunConfig, variant: str | None, runs_dir: Path, parent: str | None = None, history: Run | None = None
) -> Run:
    """A run's folder, made when everything that could fail at the start has not."""
    run = create_run(
        runs_dir,
        env=config.env.id,
        variant=variant,
        algo=config.algo.name,
        seed=config.train.seed,
        config_yaml=configs.dump(config),
        command=["gymnast", *sys.argv[1:]],
        versions=versions(),
    )
    if parent is not None:
        run.update(parent=parent)
    if history is not None and history.metrics_path.is_file():
        run.metrics_path.write_bytes(history.metrics_path.read_bytes())
    return run


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def solved_threshold(config: RunConfig, facts: configs.EnvFacts | None) -> float | None:
    """The mean return that counts as solved: the config's, the preset's, or the one registered with the env."""
    if config.stop.threshold is not None:
        return config.stop.threshold
    if facts is not None and facts.solved is not None:
        return facts.solved.threshold
    return registered_threshold(config.env)


def carry_out(session: Session, run: Run, notes: Sequence[str], quiet: bool, summary: bool) -> dict[str, Any]:
    """Trains into the run's folder and says how it ended; the folder knows it too, whatever happens."""
    from gymnast.metrics.sinks import make_sinks
    from gymnast.train import train

    config = session.config
    run.start()
    sinks = make_sinks(
        config.log.sinks,
        title=f"{config.env.id} · {config.algo.name} · seed {config.train.seed} · {run.id}",
        total_steps=config.train.total_timesteps,
        start_step=session.counters.env_steps,
        facts={"threshold": session.threshold},
        metrics_path=run.metrics_path,
        quiet=quiet,
        warn=run.log,
    )
    status, result = "crashed", None
    try:
        for note in [*notes, f"{session.env.engine} engine, {session.env.n_envs} envs; {run.path}"]:
            run.log(note)
            sinks.notice(note)
        result = train(session, sinks, run.checkpoints_dir)
        status = "interrupted" if result.stop_reason == "interrupted" else "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except EnvFailure as failure:
        run.log(str(failure))
        raise
    finally:
        sinks.close()
        session.close()
        run.finish(status, {} if result is None else summary_of(session, result))
    report = {"run": run.id} | json_result(result)
    if summary and not quiet:
        print_summary(session, run, result)
    return report


def print_summary(session: Session, run: Run, result: Result) -> None:
    from rich.console import Console

    from gymnast.metrics.sinks.panels import summary_panel

    config = session.config
    facts = {
        "run": run.id,
        "env": config.env.id,
        "algo": config.algo.name,
        "seed": config.train.seed,
        "solved": result.solved,
        "judge": config.stop.judge,
        "threshold": session.threshold,
        "env_steps": result.env_steps,
        "seconds": result.seconds,
        "fps": result.fps,
        "stop_reason": result.stop_reason,
        "next": next_commands(run, result, config),
    }
    if result.verdict is not None:
        scores = result.verdict.evaluation
        low, high = scores.interval()
        facts |= {"mean": scores.mean, "low": low, "high": high, "episodes": scores.episodes}
    Console().print(summary_panel(facts))


def summary_of(session: Session, result: Result) -> dict[str, Any]:
    """What run.json keeps: the verdict's score where there is one, else the best evaluation's."""
    scored = json_result(result)
    score = scored["eval_mean"] if scored["eval_mean"] is not None else session.counters.best_score
    return scored | {"score": score, "best_at": session.counters.best_at}


def json_result(result: Result) -> dict[str, Any]:
    scores = result.verdict.evaluation if result.verdict else None
    return {
        "env_steps": result.env_steps,
        "seconds": round(result.seconds, 3),
        "fps": round(result.fps, 1),
        "solved": result.solved,
        "eval_mean": scores.mean if scores else None,
        "interval": list(scores.interval()) if scores else None,
        "episodes": scores.episodes if scores else 0,
        "stop_reason": result.stop_reason,
    }


def next_commands(run: Run, result: Result, config: RunConfig) -> list[tuple[str, str]]:
    """What a user is likely to want now."""
    token = run.id.split("-")[0]
    look = [(f"gymnast runs show {token}", "all about this run"), (f"gymnast eval {token}", "score it again")]
    if result.stop_reason == "interrupted":
        return [(f"gymnast resume {token}", "go on exactly where it stopped"), *look]
    if not result.solved:
        longer = 2 * config.train.total_timesteps
        return [(f"gymnast resume {token} --steps {longer}", "train on from here"), *look]
    return [*look, ("gymnast runs compare @last @best", "hold it against your best")]


def evaluate_ref(
    ref: str, episodes: int, runs_dir: Path, seed: int | None, stochastic: bool, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """`gymnast eval`: a saved agent on fresh episodes of the env it was trained for."""
    from gymnast import checkpoint
    from gymnast.envs.make import make_vec
    from gymnast.evaluate import Verdict, evaluate
    from gymnast.runtime import derive_seed, pick_device, set_threads
    from gymnast.session import build_agent, group, load_agent

    run, path = resolve_checkpoint(ref, runs_dir)
    saved = checkpoint.load(path)
    config = configs.override(configs.validate(saved.state["config"]), overrides)
    set_threads(config.train.threads)
    env = make_vec(config.env, min(episodes, 32), "eval")
    try:
        agent = build_agent(config, env, pick_device(config.train.device))
        load_agent(agent, group(saved.tensors, "agent"))
        root = derive_seed(config.train.seed, "eval command") if seed is None else seed
        scores = evaluate(agent, env, episodes, root, deterministic=not stochastic)
    finally:
        env.close()
    policy = "stochastic" if stochastic else "greedy"
    verdict = Verdict(scores, solved_threshold(config, configs.load_facts(config.env.id)), policy, 1)
    low, high = scores.interval()
    return {
        "run": run.id,
        "checkpoint": path.stem,
        "env": config.env.id,
        "policy": policy,
        "episodes": scores.episodes,
        "eval_mean": scores.mean,
        "eval_std": scores.std,
        "interval": [low, high],
        "mean_length": float(scores.lengths.mean()),
        "threshold": verdict.threshold,
        "solved": verdict.solved,
        "seed": root,
    }
