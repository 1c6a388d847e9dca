"""`gymnast video`: films of a run's agents, of one or through its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.status import Status

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.runs.checkpoint import CheckpointInfo, list_checkpoints
from gymnast.runs.references import Run, resolve, resolve_checkpoint
from gymnast.terminal.format import output
from gymnast.video import require_packages

if TYPE_CHECKING:
    from gymnast.video.film import Film


def film_ref(
    ref: str,
    runs_dir: Path,
    *,
    episodes: int,
    seed: int | None,
    stochastic: bool,
    progression: bool,
    seconds: float,
    out: Path | None,
    no_overlay: bool,
    overrides: Sequence[str] = (),
    as_json: bool = False,
) -> dict[str, Any]:
    """The film's path, and the return and length of every episode in it."""
    require_packages("gymnast video")
    if progression and episodes > 1:
        raise UserError("--progression films one episode of every checkpoint; leave out --episodes.")
    if progression:
        run = resolve(ref, runs_dir)
        points = in_order(run)
    else:
        run, path = resolve_checkpoint(ref, runs_dir)
        points = [next(info for info in list_checkpoints(path.parent) if info.path == path)]
    if out is None:
        out = run.videos_dir / default_name(
            "progression" if progression else points[0].name, episodes, seed, stochastic
        )
    elif out.suffix != ".mp4":
        raise UserError(f"--out {out}: films are .mp4 files; call it {out.with_suffix('.mp4')}.")
    with frame_counter(quiet=as_json) as count:
        from gymnast.video.film import (
            Film,
        )  # torch takes seconds: by now all that can be wrong with the command is told

        with Film(out, overlay=not no_overlay, progress=count) as film:
            parts = [
                film_checkpoint(
                    film, run, point, episodes, seed, stochastic, overrides, seconds if progression else None
                )
                for point in points
            ]
    result = {"run": run.id, "video": str(out), "frames": film.frames, "parts": parts}
    if not as_json:
        print_film(result)
    return result


def in_order(run: Run) -> list[CheckpointInfo]:
    """A run's whole checkpoints by their step, each step once."""
    points = {info.step: info for info in list_checkpoints(run.checkpoints_dir) if info.problem is None}
    if not points:
        raise UserError(f"run {run.id} has no checkpoint yet.")
    return sorted(points.values(), key=lambda info: info.step or 0)


def default_name(name: str, episodes: int, seed: int | None, stochastic: bool) -> str:
    """Films that differ get other names, and the same one replaces itself."""
    name += f"_x{episodes}" if episodes > 1 else ""
    name += "_stochastic" if stochastic else ""
    return name + (f"_seed{seed}" if seed is not None else "") + ".mp4"


def film_checkpoint(
    film: Film,
    run: Run,
    point: CheckpointInfo,
    episodes: int,
    seed: int | None,
    stochastic: bool,
    overrides: Sequence[str],
    seconds: float | None,
) -> dict[str, Any]:
    """Adds a checkpoint's agent to a film; with a limit of seconds also its title."""
    from gymnast.play.player import command_seed
    from gymnast.play.stage import Stage
    from gymnast.runs import checkpoint
    from gymnast.runs.saved_agent import SavedAgent
    from gymnast.video.film import shown_actions

    saved = checkpoint.load(point.path)
    config = configs.override(configs.validate(saved.state["config"]), overrides)
    root = command_seed(config.train.seed) if seed is None else seed
    policy = "stochastic" if stochastic else "greedy"
    about = {"run": run.id, "checkpoint": point.name, "env": config.env.id, "step": point.step}
    title = () if seconds is None else (config.env.id, f"step {point.step or 0:,}", *score_of(point))
    stage = Stage(config.env, episodes)
    try:
        net = SavedAgent.build(config, stage.engine, saved.agent).net
        shots = stage.shots(net, root, deterministic=not stochastic)
        played = film.add(
            shots, stage, shown_actions(config, stage), about | {"policy": policy, "seed": root}, title, seconds
        )
    finally:
        stage.close()
    shown = [
        {"return": episode.get("return"), "length": episode.get("length"), "frames": len(episode["frames"])}
        for episode in played
    ]
    return about | {"policy": policy, "seed": root, "episodes": shown}


def score_of(point: CheckpointInfo) -> list[str]:
    """What is known of a checkpoint's agent: its own evaluation, or else its training return."""
    metrics = point.metrics
    if "eval/mean_reward" in metrics and metrics.get("eval/step", point.step) == point.step:
        return [f"mean return {metrics['eval/mean_reward']:,.1f} over {metrics['eval/episodes']:.0f} episodes"]
    if "rollout/ep_rew_mean" in metrics:
        return [f"training return {metrics['rollout/ep_rew_mean']:,.1f}"]
    return []


def print_film(result: dict[str, Any]) -> None:
    console = output()
    for part in result["parts"]:
        for episode in part["episodes"]:
            if episode["return"] is None:
                said = f"the first {episode['frames']:,} pictures"
            else:
                said = f"return {episode['return']:g} in {episode['length']:,} steps"
            console.print(
                f"{part['checkpoint']}, step {part['step'] or 0:,}: {said} ({part['policy']})", highlight=False
            )
    if len(result["parts"]) == 1 and Path(result["video"]).stem == "progression":
        console.print("the run kept one checkpoint only; --set train.checkpoint_every=N keeps one every N steps")
    console.print(f"wrote {result['video']} ({result['frames']:,} frames)", highlight=False, soft_wrap=True)


@contextmanager
def frame_counter(quiet: bool) -> Iterator[Any]:
    """How many pictures there are so far, on a terminal: nobody knows how many there will be."""
    console = output(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    status = Status("filming", console=console)

    def count(frames: int) -> None:
        if frames % 25 == 0:
            status.update(f"filming: {frames:,} pictures")

    with status:
        yield count
