"""`gymnast train|resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import app, carry_out, common, fail_unless_solved, on_option, quiet, sets, trust, verb
from gymnast.core.errors import UserError

detach = click.option("--detach", is_flag=True, help="With --on: return when the run has begun.")


@app.command(short_help="Train an agent until its env is solved.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seed", type=int, help="Short for --set train.seed=N.")
@click.option("--seeds", metavar="N|A-B", help="Train a run with each of these seeds: 5, 1-10, 1,4-6.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="With --seeds: runs at the same time; several have one thread each.  [default: 1]",
)
@click.option(
    "--redo", is_flag=True, help="With --seeds: train seeds again that have a finished run with these settings."
)
@click.option("--steps", type=int, help="Short for --set train.total_timesteps=N.")
@click.option(
    "--init-from",
    metavar="REF",
    help="Start with the layers of another run's agent, where name and shape are the same.",
)
@click.option(
    "--track", multiple=True, metavar="NAME", help="Also log to wandb, trackio, tensorboard or csv. Repeatable."
)
@click.option("--name", help="A name for the run, which other commands take as REF.")
@click.option("--tag", "tags", multiple=True, help="A word to find it by: `gymnast runs list --tag WORD`. Repeatable.")
@on_option
@detach
@trust
@fail_unless_solved
@quiet
@common
def train(
    runs_dir: Path,
    seed: int | None,
    seeds: str | None,
    jobs: int | None,
    redo: bool,
    on: str | None,
    detach: bool,
    **options: Any,
) -> None:
    """Train an agent on ENV until a verdict on fresh episodes says solved, or its budget is used up.

    ENV is any id registered with Gymnasium (`module:Env-v0` imports the module first), or your own YAML file.
    Envs with presets: `gymnast envs list`.

    \b
    gymnast train CartPole-v1
    gymnast train CartPole-v1:reinforce --seed 7 --json
    gymnast train LunarLander-v3 --set env.kwargs.gravity=-5 --set env.n_envs=32
    gymnast train FrozenLake-v1 --set 'env.wrappers=[{time_limit: {steps: 50}}]'
    gymnast train my_env.yaml:fast --init-from @best
    gymnast train CartPole-v1 --set algo.gamma=0.9 --name short --tag gamma
    gymnast train CartPole-v1 --track wandb --track tensorboard
    gymnast train LunarLander-v3 --on 10.0.0.5:6379 --detach
    gymnast train CartPole-v1 --seeds 1-5     five runs, and what they say together
    """
    options["runs_dir"] = runs_dir
    alone = {"--seed": seed is not None, "--on": on is not None, "--detach": detach}
    if seeds is None:
        if jobs is not None or redo:
            raise UserError(f"{'--redo' if redo else '--jobs'}: goes with --seeds, which trains several runs.")
        if detach and options["fail_unless_solved"]:
            raise UserError("--fail-unless-solved: needs the verdict, and --detach does not wait for it. Use one.")
        one = {**options, "seed": seed, "on": on, "detach": detach}
        carry_out("train:start", "summary:print_summary", one, always=True)
    elif given := [name for name, is_given in alone.items() if is_given]:
        raise UserError(
            f"{given[0]}: cannot be used with --seeds. On a cluster: `gymnast benchmark TARGET --on WHERE`."
        )
    else:
        several = {**options, "seeds": seeds, "jobs": jobs, "redo": redo}
        carry_out("seeds:train_seeds", "seeds:print_seeds", several, always=True)


@app.command(short_help="Continue a run.")
@click.argument("ref", default="@last")
@sets
@click.option("--steps", type=int, help="In all, with those already made: short for --set train.total_timesteps=N.")
@click.option("--reset-optimizer", is_flag=True, help="Keep the agent and reset the optimizer's moments.")
@on_option
@detach
@trust
@fail_unless_solved
@quiet
@verb("train:resume", "summary:print_summary", always=True)
def resume() -> None:
    """Continue REF exactly where it stopped: weights, optimizer, schedules, random numbers, envs in mid-episode.

    With changed settings a new run starts from there; the old run does not change.

    \b
    gymnast resume                            the newest run
    gymnast resume k3x9 --steps 200000        train longer
    gymnast resume k3x9 --on ray              the same run, on a cluster
    gymnast resume @best/best --set algo.learning_rate=1e-4 --reset-optimizer
    """
