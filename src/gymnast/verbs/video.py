"""`gymnast video`: a video of a run's agent, or of its checkpoints one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.core.trust import allow
from gymnast.runs.checkpoint import CheckpointInfo, describe, list_checkpoints
from gymnast.runs.references import Run, resolve, resolve_checkpoint
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.result import Facts
from gymnast.video import require_packages

if TYPE_CHECKING:
    from gymnast.video.writer import VideoWriter

COUNTED = 25  # frames between two reports of progress


@dataclass(frozen=True)
class RecordedVideo(Facts):
    progression: bool


def record_video(
    ref: str,
    runs_dir: Path,
    *,
    episodes: int = 1,
    seed: int | None = None,
    stochastic: bool = False,
    progression: bool = False,
    seconds: float = 10.0,
    out: Path | None = None,
    no_overlay: bool = False,
    objects: bool = False,
    overrides: Sequence[str] = (),
    stage: str | None = None,
    task: str | None = None,
    trust: bool = False,
    progress: Progress = SILENT,
) -> RecordedVideo:
    """`seconds`: at most of each part of a progression. `task`: of a run with several; None: the first. `trust`: what
    the run names is imported, wherever it was made."""
    require_packages("gymnast video")
    if progression and episodes > 1:
        raise UserError("--progression records one episode of every checkpoint; leave out --episodes.")
    if progression:
        run = resolve(ref, runs_dir)
        points = in_order(run)
    else:
        run, path = resolve_checkpoint(ref, runs_dir)
        points = [describe(path)]
    if trust:
        allow(points[0].path)
    if out is None:
        name = "progression" if progression else points[0].name
        name += f"_in_{stage}" if stage else ""
        name += f"_{task}" if task else ""
        out = run.videos_dir / default_name(name, episodes, seed, stochastic, objects)
    elif out.suffix != ".mp4":
        raise UserError(f"--out {out}: videos are .mp4 files; call it {out.with_suffix('.mp4')}.")
    progress.step("starting")

    from gymnast.video.writer import VideoWriter  # imports torch: by now mistakes in the command have been reported

    def count(frames: int) -> None:
        if frames % COUNTED == 0:
            progress.step(f"recording: {frames:,} frames")

    with VideoWriter(out, overlay=not no_overlay, progress=count) as video:
        limit = seconds if progression else None
        options = (episodes, seed, stochastic, overrides, stage, limit, objects, task)
        parts = [add_checkpoint(video, run, point, *options) for point in points]
    return RecordedVideo({"run": run.id, "video": out, "frames": video.frames, "parts": parts}, progression)


def in_order(run: Run) -> list[CheckpointInfo]:
    """A run's intact checkpoints by their step, each step once."""
    points = {info.step: info for info in list_checkpoints(run.checkpoints_dir) if info.problem is None}
    if not points:
        raise UserError(f"run {run.id} has no checkpoint yet.")
    return sorted(points.values(), key=lambda info: info.step or 0)


def default_name(name: str, episodes: int, seed: int | None, stochastic: bool, objects: bool = False) -> str:
    """Videos that differ get other names, and the same one replaces itself."""
    name += "_objects" if objects else ""
    name += f"_x{episodes}" if episodes > 1 else ""
    name += "_stochastic" if stochastic else ""
    return name + (f"_seed{seed}" if seed is not None else "") + ".mp4"


def add_checkpoint(
    video: VideoWriter,
    run: Run,
    point: CheckpointInfo,
    episodes: int,
    seed: int | None,
    stochastic: bool,
    overrides: Sequence[str],
    stage_name: str | None,
    seconds: float | None,
    objects: bool,
    task: str | None,
) -> dict[str, Any]:
    """Adds a checkpoint's agent to a video; with a limit of seconds also its title. An episode that the video does not
    show to its end has no return and no length."""
    from gymnast.play.episode import play_episodes
    from gymnast.play.player import command_seed
    from gymnast.play.stage import Stage
    from gymnast.runs import checkpoint
    from gymnast.runs.saved_agent import SavedAgent

    saved = checkpoint.load(point.path)
    saved.require_env()
    config = configs.override(saved.in_stage(stage_name), overrides)
    root = command_seed(config.train.seed) if seed is None else seed
    stage = Stage(config, episodes, task, objects)
    about = {
        "run": run.id,
        "checkpoint": point.name,
        "env": stage.config.id,
        **({} if stage.task is None else {"task": config.tasks[stage.task].name}),
        **({} if config.evaluated_on is None else {"evaluated_on": config.evaluated_on}),
        "step": point.step,
        "policy": "stochastic" if stochastic else "greedy",
        "seed": root,
    }
    title = (
        ()
        if seconds is None
        else (config.evaluated_on or stage.config.id, f"step {point.step or 0:,}", *score_of(point))
    )
    try:
        net = SavedAgent.build(config, stage.engine, saved.agent).net
        steps = play_episodes(net, stage, root, deterministic=not stochastic)
        played = video.add(steps, stage.fps, stage.labels(net.agent), about, title, seconds)
    finally:
        stage.engine.close()
    shown = [{"return": e.get("return"), "length": e.get("length"), "frames": len(e["frames"])} for e in played]
    return about | {"episodes": shown}


def score_of(point: CheckpointInfo) -> list[str]:
    """What is known of a checkpoint's agent: its own evaluation, or else its training return."""
    metrics = point.metrics
    if "eval/mean_reward" in metrics and metrics.get("eval/step", point.step) == point.step:
        return [f"mean return {metrics['eval/mean_reward']:,.1f} over {metrics['eval/episodes']:.0f} episodes"]
    if "rollout/ep_rew_mean" in metrics:
        return [f"training return {metrics['rollout/ep_rew_mean']:,.1f}"]
    return []
