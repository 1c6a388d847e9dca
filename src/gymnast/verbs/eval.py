"""`gymnast eval`: a saved agent on fresh episodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gymnast import config as configs
from gymnast.core.pulse import Pulse
from gymnast.runs.references import SavedFile, resolve_checkpoint, runs_dir_option
from gymnast.training.record import exact_result, solved_threshold
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.result import Scored


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
    progress: Progress = SILENT,
) -> Scored:
    """`gymnast eval`: a saved agent on fresh episodes of the env of its scores, as many as its verdict takes."""
    run, path = resolve_checkpoint(ref, runs_dir)  # before torch is imported: a mistake is reported at once

    from gymnast.envs.make import make_vec
    from gymnast.envs.tabular.oracle import table_of
    from gymnast.judge.evaluate import evaluate
    from gymnast.judge.evidence import NOTHING_SEEN, Range, weigh
    from gymnast.judge.exact import exact_score
    from gymnast.play.player import command_seed
    from gymnast.runs import checkpoint
    from gymnast.runs.saved_agent import SavedAgent

    saved = checkpoint.load(path)
    saved.require_env()
    # what training went on for does not matter here, and may be out of reach in an env that is made otherwise
    config = configs.override(saved.in_stage(stage), ["stop.target=null", *overrides])
    episodes = episodes or config.stop.episodes
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
    seen = (Range(**saved.state["judge"]["seen"]) if same else NOTHING_SEEN).over(scores.returns)
    if threshold is None:
        solved = False
    else:
        solved = weigh(scores.returns, threshold, seen).shown if exact is None else exact.value >= threshold
    show = f"gymnast runs show {run.id.split('-')[0]}{runs_dir_option(runs_dir)}"
    follows = [] if isinstance(run, SavedFile) else [(show, "all about this run")]
    data = {
        "run": run.id,
        "checkpoint": path.stem,
        "env": config.eval_env.id,
        "evaluated_on": config.evaluated_on,
        **({"stage": stage or saved.stage} if saved.stage else {}),
        "policy": "stochastic" if stochastic else "greedy",
        "episodes": scores.episodes,
        "eval_mean": scores.mean,
        "eval_std": scores.std,
        "interval": list(scores.interval(seen)),
        **exact_result(exact),
        "mean_length": float(scores.lengths.mean()),
        "threshold": threshold,
        "solved": solved,  # these episodes alone show it, with an error of 5 %
        "seed": root,
    }
    return Scored(data, run.id, config, threshold, follows)
