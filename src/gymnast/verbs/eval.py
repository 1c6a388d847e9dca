"""`gymnast eval`: a saved agent on fresh episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.pulse import Pulse
from gymnast.core.trust import allow
from gymnast.runs.references import Run, SavedFile, resolve_checkpoint, runs_dir_option
from gymnast.training.record import exact_result, solved_threshold
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.result import Scored

if TYPE_CHECKING:
    from gymnast.config import RunConfig
    from gymnast.runs.checkpoint import Checkpoint


class Counting(Pulse):
    """Hands on how many episodes have ended."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress, self._reported = progress, 0

    def check(self) -> None:
        super().check()
        self._progress.done(self.done - self._reported)
        self._reported = self.done


def evaluate_ref(
    ref: str,
    episodes: int | None,
    runs_dir: Path,
    seed: int | None,
    stochastic: bool,
    overrides: Sequence[str] = (),
    stage: str | None = None,
    task: str | None = None,
    trust: bool = False,
    progress: Progress = SILENT,
) -> Scored:
    """`gymnast eval`: a saved agent on fresh episodes of the env of its scores, as many as its verdict takes.

    `task`: one of a run with several; None: all of them. `trust`: what the run names is imported, wherever it was made.
    """
    run, path = resolve_checkpoint(ref, runs_dir)  # before torch is imported: a mistake is reported at once
    if trust:
        allow(path)

    from gymnast.envs.make import make_vec
    from gymnast.envs.tabular.oracle import table_of
    from gymnast.judge.evaluate import evaluate
    from gymnast.judge.evidence import NOTHING_SEEN, weigh
    from gymnast.judge.exact import exact_score
    from gymnast.judge.record import saved_record
    from gymnast.play.player import command_seed
    from gymnast.runs import checkpoint
    from gymnast.runs.saved_agent import SavedAgent

    saved = checkpoint.load(path)
    saved.require_env()
    record = saved_record(saved)  # before a thousand episodes
    # what training went on for does not matter here, and may be out of reach in an env that is made otherwise
    config = configs.override(saved.in_stage(stage), ["stop.target=null", *overrides])
    episodes = episodes or config.stop.episodes
    number = config.task_number(task)
    if number is not None:
        numbers = range(len(config.tasks)) if task is None else [number]
        return _evaluate_tasks(run, path, saved, config, numbers, episodes, seed, stochastic, progress)
    env = make_vec(config.eval_env, min(episodes, 32), "eval")
    try:
        net = SavedAgent.build(config, env, saved.agent).net
        root = command_seed(config.train.seed) if seed is None else seed
        progress.step("evaluating")
        progress.plan(episodes)
        scores = evaluate(net, env, episodes, root, deterministic=not stochastic, pulse=Counting(progress))
        table = None if net.agent.has_memory else table_of(config.eval_env, env)
        exact = None if table is None else exact_score(net, table, deterministic=not stochastic)
    finally:
        env.close()
    threshold = solved_threshold(config, configs.load_facts(config.env.id))
    same = saved.in_stage().env == saved.in_stage(stage).env  # returns of another stage say nothing about this one
    floor = configs.lowest_return(config.eval_env, config.stop.lowest_return)
    seen = replace(record.seen if same else NOTHING_SEEN, floor=floor).over(scores.returns)
    test = None
    if threshold is not None and exact is None:
        test = weigh(scores.returns, threshold, seen, least=config.stop.episodes)
    solved = test.shown if test else exact is not None and threshold is not None and exact.value >= threshold
    data = {
        "run": run.id,
        "checkpoint": path.stem,
        "env": config.eval_env.id,
        "evaluated_on": config.evaluated_on,
        **({"stage": stage or saved.stage} if saved.stage else {}),
        "policy": "stochastic" if stochastic else "greedy",
        "episodes": scores.episodes,
        "distinct": scores.distinct,
        "eval_mean": scores.mean,
        "eval_std": scores.std,
        "interval": list(scores.interval(seen, test)),
        "test": test and test.to_json(),
        **exact_result(exact),
        "mean_length": float(scores.lengths.mean()),
        "threshold": threshold,
        "solved": solved,  # these episodes alone show it, with an error of 5 %
        "seed": root,
    }
    return Scored(data, run.id, config, threshold, _follows(run))


def _follows(run: Run | SavedFile) -> list[tuple[str, str]]:
    if isinstance(run, SavedFile):
        return []
    return [(f"gymnast runs show {run.id.split('-')[0]}{runs_dir_option(run.path.parent)}", "all about this run")]


def _evaluate_tasks(
    run: Run | SavedFile,
    path: Path,
    saved: Checkpoint,
    config: RunConfig,
    numbers: Sequence[int],
    episodes: int,
    seed: int | None,
    stochastic: bool,
    progress: Progress,
) -> Scored:
    """Some tasks of a run with several. The score of one is its own; that of several is the worst one's, relative."""
    from gymnast.core.tasks import relative
    from gymnast.envs.tasks import make_task_vec, task_spaces
    from gymnast.judge.evaluate import Evaluation, evaluate
    from gymnast.judge.evidence import NOTHING_SEEN, weigh
    from gymnast.judge.record import saved_record
    from gymnast.judge.tasks import task_floors, task_thresholds
    from gymnast.play.player import command_seed
    from gymnast.runs.saved_agent import SavedAgent

    spaces, thresholds, floors = task_spaces(config), task_thresholds(config), task_floors(config)
    root = command_seed(config.train.seed) if seed is None else seed
    known = saved_record(saved).tasks
    tasks: dict[str, dict[str, Any]] = {}
    found: dict[str, Evaluation] = {}
    progress.step("evaluating")
    progress.plan(episodes * len(numbers))
    for number in numbers:
        name = config.tasks[number].name
        env = make_task_vec(config, number, min(episodes, 32), "eval", spaces)
        try:
            net = SavedAgent.build(config, env, saved.agent).net
            scores = evaluate(net, env, episodes, root, deterministic=not stochastic, pulse=Counting(progress))
        finally:
            env.close()
        seen = replace(known[name].seen if name in known else NOTHING_SEEN, floor=floors[name])
        test = weigh(scores.returns, thresholds[name], seen, least=config.stop.episodes)
        found[name] = scores
        tasks[name] = {
            "score": scores.mean,
            "interval": list(scores.interval(seen, test)),
            "episodes": scores.episodes,
            "threshold": thresholds[name],
            "solved": test.shown,
            "test": test.to_json(),
        }
    worst = min(found, key=lambda name: relative(found[name].mean, thresholds[name]))
    scores, threshold, interval = found[worst], thresholds[worst], tasks[worst]["interval"]
    if len(numbers) > 1:  # of several the worst one's, relative to its threshold
        scores, threshold = replace(scores, returns=relative(scores.returns, threshold)), 0.0
        ends = [[relative(end, task["threshold"]) for end in task["interval"]] for task in tasks.values()]
        interval = [min(low for low, _ in ends), min(high for _, high in ends)]
    data: dict[str, Any] = {
        "run": run.id,
        "checkpoint": path.stem,
        "env": config.task_envs[numbers[0]].id,
        "task": worst,
        "policy": "stochastic" if stochastic else "greedy",
        "episodes": scores.episodes,
        "distinct": scores.distinct,
        "eval_mean": scores.mean,
        "eval_std": scores.std,
        "interval": interval,
        "test": tasks[worst]["test"] if len(numbers) == 1 else None,
        **exact_result(None),
        "mean_length": float(scores.lengths.mean()),
        "threshold": threshold,
        "solved": all(task["solved"] for task in tasks.values()),
        "seed": root,
    } | ({"tasks": tasks} if len(numbers) > 1 else {})
    return Scored(data, run.id, config, threshold, _follows(run))
