"""`gymnast video`."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import Finite, app, env_sets, trust, verb


@app.command(short_help="Record a video of a saved agent.")
@click.argument("ref", default="@last")
@click.option("--episodes", type=click.IntRange(1, 32), default=1, show_default=True, help="Number of episodes.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the episodes; other seeds give other episodes.")
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the most likely one.")
@click.option("--progression", is_flag=True, help="Show one episode of every checkpoint of the run, in order.")
@click.option(
    "--seconds",
    type=Finite(min=1),
    default=10.0,
    show_default=True,
    help="Longest part of a --progression, in seconds.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file.  [default: in the run's videos folder]"
)
@click.option("--no-overlay", is_flag=True, help="Show only the images of the env.")
@click.option("--objects", is_flag=True, help="Draw boxes around the objects of an Atari game, found in its RAM.")
@click.option("--stage", metavar="NAME", help="Stage of a curriculum.  [default: the one this agent was trained in]")
@click.option("--task", metavar="NAME", help="Task of a run with several tasks.  [default: the first]")
@env_sets
@trust
@verb("video:record_video", "video:print_video")
def video() -> None:
    """Record a video of a saved agent: every step with reward, return so far, value, and the actions' probabilities.

    REF may name a checkpoint (k3x9/best, k3x9/last, k3x9/step_20480); without one it is the best. The episodes are
    those that `gymnast eval REF --episodes N --seed S` scores. A JSON file next to the video describes it.

    \b
    gymnast video                             the best agent of the newest run
    gymnast video k3x9/last --episodes 3 --stochastic --out three.mp4
    gymnast video @best:LunarLander-v3 --progression
    gymnast video @best:ALE/Pong-v5 --objects
    gymnast video k3x9 --task acrobot         of a run with several tasks
    """
