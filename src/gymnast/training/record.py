"""A training run and its folder: what is written down, from the first step to how it ended."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import EnvFailure, UserError, reason_of
from gymnast.core.files import copy_file, write_atomic
from gymnast.core.machine import cores, cpu_model, package_versions
from gymnast.core.tasks import ALL_SOLVED
from gymnast.runs.references import Run, create_run

if TYPE_CHECKING:
    from gymnast.config import RunConfig
    from gymnast.judge.exact import ExactScore
    from gymnast.judge.record import Record
    from gymnast.training.loop import Result
    from gymnast.training.rows import Observer
    from gymnast.training.state import TrainState

PACKAGES = ("gymnast", "torch", "gymnasium", "numpy", "envpool")


def new_run(
    config: RunConfig,
    variant: str | None,
    runs_dir: Path,
    parent: str | None = None,
    history: Run | None = None,
    command: Sequence[str] | None = None,
    **facts: Any,
) -> Run:
    """A run's folder, made when everything that could fail at the start has not. `command`: what makes it again, where
    that is not this process's. `facts`: more for run.json."""
    run = create_run(
        runs_dir,
        configs.dump(config),
        env=config.env.id,
        algo=config.algo.name,
        seed=config.train.seed,
        variant=variant,
        parent=parent,
        machine=f"{cpu_model()}, {cores()} core{'' if cores() == 1 else 's'}",
        versions=versions(),
        command=["gymnast", *sys.argv[1:]] if command is None else list(command),
        **facts,
    )
    if history is not None:
        for old, new in ((history.metrics_path, run.metrics_path), (history.diagnostics_path, run.diagnostics_path)):
            if os.path.lexists(old):
                copy_file(old, new)
    return run


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **package_versions(*PACKAGES)}


def solved_threshold(config: RunConfig, facts: configs.EnvFacts | None) -> float | None:
    """The mean return that counts as solved: the config's, the preset's, or the one registered with the env.

    `facts`: about the training env; the threshold is that of the env that agents are scored in.
    """
    if config.tasks:  # each has its own, and the run's score is relative to them
        return ALL_SOLVED
    if config.stop.threshold is not None:
        return config.stop.threshold
    facts = configs.scored_facts(config, facts)
    if facts is not None and facts.solved is not None:
        return facts.solved.threshold
    from gymnast.envs.suites import find_spec

    return find_spec(config.in_stage(-1).eval_env.id).reward_threshold


def record(
    state: TrainState, run: Run, notes: Sequence[str] = (), quiet: bool = False, observer: Observer | None = None
) -> Result:
    """Trains into the run's folder; the folder knows how it ended, whatever happens. The session stays open."""
    from gymnast.envs.make import missed_engine
    from gymnast.sinks import make_sinks
    from gymnast.sinks.base import RunInfo
    from gymnast.training.loop import train
    from gymnast.training.rows import stage_line

    config = state.config
    run.start()
    inexact = what_differs(state)
    run.update(summary={"engine": state.env.engine, "exact_resume": inexact is None})

    def note(text: str) -> None:
        with suppress(OSError):  # a full disk must not end a training because of a message
            run.log(text)
        sinks.notice(text)

    def warn(text: str) -> None:
        note(text)
        if quiet or "console" not in config.log.sinks:
            with suppress(OSError):  # a terminal that is closed
                print(f"gymnast: {text}", file=sys.stderr)

    info = RunInfo(
        folder=run.path.resolve(),
        id=run.id,
        start_step=state.counters.env_steps,
        threshold=state.judge.threshold,
        evaluated_on=config.evaluated_on,
        quiet=quiet,
        config=config.model_dump(mode="json"),
    )
    sinks = make_sinks(config.log.sinks, info, warn, note)
    if (what := to_be_compiled(state)) is not None:
        notes = [*notes, f"compiling the {what}: a few seconds, once on this machine"]
    if config.evaluated_on is not None:
        notes = [*notes, f"evaluated on {config.evaluated_on}"]
    if config.stages:
        notes = [*notes, stage_line(state)]
    if config.tasks:
        of = zip(state.judge.record.tasks.items(), config.task_shares, strict=True)
        each = (f"{name} in {n} {'env' if n == 1 else 'envs'}, solved at {task.threshold:g}" for (name, task), n in of)
        notes = [*notes, f"tasks: {'; '.join(each)}"]
    status, result = "crashed", None
    state.pulse.on_stop = run.mark_stopping
    try:
        env = config.in_stage(state.counters.stage).env
        missed = missed_engine(env, env.n_envs) if state.factory is None and not config.tasks else None
        about = f"{state.env.engine} engine, {state.env.n_envs} envs; {run.path}"
        for text in filter(None, [*notes, about, missed, inexact]):
            note(text)
        result = train(state, sinks, run.checkpoints_dir, observer, run.videos_dir)
        status = "interrupted" if result.stop_reason == "interrupted" else "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except EnvFailure as failure:
        with suppress(OSError):
            run.log(str(failure))
        raise
    finally:
        try:
            sinks.close_files()
            # What went wrong is said even where no file can be opened any more, as with an env that opens too many.
            with nullcontext() if result else suppress(OSError, ImportError, UserError):
                run.finish(status, summary_of(state, result))
                report(run)
        finally:
            sinks.close(status)  # trackers take the folder as it is now
    return result


def what_differs(state: TrainState) -> str | None:
    """Why two runs with the same seed, or one that is resumed, do not give the same numbers; None: they do, as far as
    is known."""
    from gymnast.envs.make import EnvMaker, exact_engine
    from gymnast.envs.repeat import repeats

    config, env = state.config, state.env
    if config.train.layout == "central" and config.train.central.mode == "async":
        return "async actors: the same seed gives other numbers, and a resumed run begins new episodes"
    if not env.exact_resume:
        other = None if state.factory is not None else exact_engine(config.env, env.n_envs, env.engine)
        instead = "" if other is None else f". For exact resume: --set env.engine={other}"
        return f"a resumed run begins new episodes: the {env.engine} engine cannot continue those in progress{instead}"
    # A resumed run has said so before. Other engines than sync are there for envs that this process should not step.
    if state.counters.env_steps or state.factory is not None or env.engine != "sync":
        return None
    ids = (part.env.id for part in config.parts if repeats(EnvMaker(part.env, "train")) is False)
    if (name := next(ids, None)) is None:
        return None
    return (
        f"{name} gives other numbers for the same seed, so that two runs with one seed differ and resume is not exact: "
        "draw from self.np_random, which reset(seed=seed) seeds. See `gymnast envs check`"
    )


def to_be_compiled(state: TrainState) -> str | None:
    """What the first steps of this run have to wait for, if no run has compiled it before."""
    from gymnast.agent import memory_kernels
    from gymnast.agent.nets import kernels

    memory = state.config.agent.memory
    if state.net.compiled and not kernels.is_compiled(kernels.outputs_backward):
        return "fast network"
    if memory is not None and state.agent.device.type == "cpu":
        loop = memory_kernels.lstm_backward if memory == "lstm" else memory_kernels.gru_backward
        return None if kernels.is_compiled(loop) else f"{memory} memory"
    return None


def report(run: Run) -> None:
    """report.md, however the run ended. Whatever keeps the page from being made takes nothing but the page."""
    from gymnast.report.blocks import markdown
    from gymnast.report.page import build_page
    from gymnast.report.run_facts import RunFacts

    try:
        write_atomic(run.report_path, markdown(build_page(RunFacts(run))).encode())
    except Exception as error:  # the training is done by now: it has not failed because its page has
        with suppress(OSError):
            run.log(f"no report: {reason_of(error)}")


def summary_of(state: TrainState, result: Result | None) -> dict[str, Any]:
    """What run.json keeps: the verdict's score where there is one, else the best evaluation's."""
    record = state.judge.record
    scored = {"env_steps": state.counters.env_steps, "eval_mean": None} if result is None else json_result(result)
    score = scored["eval_mean"] if scored["eval_mean"] is not None else record.best_score
    goals = {"threshold": state.judge.threshold, "target": state.judge.target}
    agents: dict[str, Any] = {
        "score": score,
        "best_at": record.best_at,
        "last_score": record.last_score,
        "last_at": record.last_at,
    }
    agents["test"] = record.test and record.test.to_json()
    if record.tasks:
        agents["tasks"] = tasks_result(record)
    more = {"training_return": state.meter.mean_return, "evaluated_on": state.config.evaluated_on}
    stages = {"stages": stage_results(state)} if state.config.stages else {}
    return scored | goals | agents | more | stages


def stage_results(state: TrainState) -> list[dict[str, Any]]:
    """What came of each stage that was begun: where it began, its steps, its score at its end and by the last
    evaluation, and what was forgotten in between. Null: not known."""
    record, counters = state.judge.record, state.counters
    results: list[dict[str, Any]] = []
    began = 0
    for name in list(state.config.stages)[: counters.stage + 1]:
        end, now = record.stage_ends.get(name), record.stage_scores.get(name)
        until = counters.env_steps if end is None else end.step
        results.append(
            {
                "stage": name,
                "began": began,
                "steps": until - began,
                "score_at_end": None if end is None else end.score,
                "score": now,
                "forgetting": None if end is None or end.score is None or now is None else end.score - now,
            }
        )
        began = until
    return results


def tasks_result(record: Record) -> dict[str, Any]:
    """By task, in its env's own reward: the last verdict's score, or the last evaluation's where there was none."""
    return {
        name: {
            "score": task.score,
            "interval": None if task.interval is None else list(task.interval),
            "episodes": task.episodes,
            "threshold": task.threshold,
            "solved": task.solved,
            "test": task.test and task.test.to_json(),
        }
        for name, task in record.tasks.items()
    }


def json_result(result: Result) -> dict[str, Any]:
    verdict = result.verdict
    scores = verdict.evaluation if verdict else None
    return {
        "env_steps": result.env_steps,
        "seconds": round(result.seconds, 3),
        "fps": round(result.fps, 1),
        "solved": result.solved,
        "on_target": result.on_target,
        "eval_mean": scores.mean if scores else None,
        "interval": list(verdict.interval) if verdict else None,
        "episodes": scores.episodes if scores else 0,
        "distinct": scores.distinct if scores else 0,
        "fresh": verdict.fresh if verdict else None,
        **exact_result(verdict.exact if verdict else None),
        "stop_reason": result.stop_reason,
    }


def exact_result(exact: ExactScore | None) -> dict[str, float | None]:
    """Null where the env has no transition table."""
    if exact is None:
        return dict.fromkeys(("exact_value", "optimum", "regret"))
    return {"exact_value": exact.value, "optimum": exact.optimum, "regret": exact.regret}
