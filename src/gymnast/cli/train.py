"""`gymnast train|resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gymnast.cli.verbs import app, common, quiet, sets, show

if TYPE_CHECKING:
    from gymnast.verbs.train import TrainedRun


def print_result(result: TrainedRun) -> None:
    from gymnast.terminal.summary import print_summary  # rich: not before training, and not for a quiet run

    print_summary(result)


@app.command(short_help="Train an agent until it is solved.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seed", type=int, help="Short for --set train.seed=N.")
@click.option("--steps", type=int, help="Short for --set train.total_timesteps=N.")
@click.option("--init-from", metavar="REF", help="Start with the layers of another run's agent that fit.")
@click.option(
    "--track", multiple=True, metavar="NAME", help="Also log to wandb, trackio, tensorboard or csv. Repeatable."
)
@quiet
@common
def train(
    target: str,
    overrides: tuple[str, ...],
    seed: int | None,
    steps: int | None,
    init_from: str | None,
    track: tuple[str, ...],
    quiet: bool,
    runs_dir: Path,
) -> None:
    """Train an agent on ENV until a verdict on fresh episodes says solved, or its budget is spent.

    ENV is any id registered with Gymnasium (`module:Env-v0` imports the module first), or your own YAML file.
    Envs with presets: `gymnast envs list`.

    \b
    gymnast train CartPole-v1
    gymnast train CartPole-v1:reinforce --seed 7 --json
    gymnast train LunarLander-v3 --set env.kwargs.gravity=-5 --set env.n_envs=32
    gymnast train FrozenLake-v1 --set 'env.wrappers=[{time_limit: {steps: 50}}]'
    gymnast train my_env.yaml:fast --init-from @best
    gymnast train CartPole-v1 --track wandb --track tensorboard
    """
    from gymnast.verbs.train import start

    show(start(target, overrides, runs_dir, seed, steps, init_from, quiet, track), print_result, always=True)


@app.command(short_help="Go on with a run.")
@click.argument("ref", default="@last")
@sets
@click.option("--steps", type=int, help="Short for --set train.total_timesteps=N.")
@click.option("--reset-optimizer", is_flag=True, help="Keep the agent, forget the optimizer's moments.")
@quiet
@common
def resume(
    ref: str,
    overrides: tuple[str, ...],
    steps: int | None,
    reset_optimizer: bool,
    quiet: bool,
    runs_dir: Path,
) -> None:
    """Go on with REF exactly where it stopped: weights, optimizer, schedules, random numbers, envs in mid-episode.

    With changed settings a new run is made that starts from there; the old one stays as it is.

    \b
    gymnast resume                            the newest run
    gymnast resume k3x9 --steps 200000        train longer
    gymnast resume @best/best --set algo.learning_rate=1e-4 --reset-optimizer
    """
    from gymnast.verbs.train import resume

    longer = [] if steps is None else [f"train.total_timesteps={steps}"]
    show(resume(ref, [*overrides, *longer], runs_dir, reset_optimizer, quiet), print_result, always=True)
