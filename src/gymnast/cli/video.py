"""`gymnast video`."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import Finite, app, sets, verb


@app.command(short_help="Record a video of a saved agent.")
@click.argument("ref", default="@last")
@click.option("--episodes", type=click.IntRange(1, 32), default=1, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(min=0), help="Other episodes than the default ones.")
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the likeliest.")
@click.option("--progression", is_flag=True, help="An episode of every checkpoint of the run, in order.")
@click.option("--seconds", type=Finite(min=1), default=10.0, show_default=True, help="At most, of each then.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File; default: in the run's videos.")
@click.option("--task", help="Which one, of a run with several tasks.  [default: the first]")
@click.option("--no-overlay", is_flag=True, help="The env's pictures alone.")
@sets
@verb("video:record_video", "video:print_video")
def video() -> None:
    """Record a video of a saved agent: every step with reward, return so far, value, and the actions' probabilities.

    REF may name a checkpoint (k3x9/best, k3x9/last, k3x9/step_20480); without one it is the best. The episodes are
    those that `gymnast eval REF --episodes N --seed S` scores. A JSON file next to the video describes it.

    \b
    gymnast video                             the best agent of the newest run
    gymnast video k3x9/last --episodes 3 --stochastic --out three.mp4
    gymnast video @best:LunarLander-v3 --progression
    gymnast video k3x9 --task acrobot         of a run with several tasks
    """
