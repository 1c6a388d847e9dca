"""`gymnast eval`."""

from __future__ import annotations

import click

from gymnast.cli.verbs import BAR_AFTER_SECONDS, app, env_sets, fail_unless_solved, trust, verb


@app.command("eval", short_help="Score a saved agent.")
@click.argument("ref", default="@last")
@click.option("--episodes", type=click.IntRange(min=1), help="Number of episodes.  [default: the run's stop.episodes]")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the episodes; other seeds give other episodes.")
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the most likely one.")
@click.option("--stage", metavar="NAME", help="Stage of a curriculum.  [default: the one this agent was trained in]")
@click.option("--task", metavar="NAME", help="Task of a run with several tasks.  [default: all of them]")
@env_sets
@fail_unless_solved
@trust
@verb("eval:evaluate_ref", "summary:print_summary", bar_after=BAR_AFTER_SECONDS)
def evaluate() -> None:
    """Play fresh episodes with the agent of REF and report whether it solves its env.

    The env is built exactly as in training, without wrappers marked training_only.

    \b
    gymnast eval                              the best agent of the newest run
    gymnast eval k3x9/last --stochastic --episodes 500
    gymnast eval k3x9 --stage plain           in an earlier stage of its curriculum
    gymnast eval @best:LunarLander-v3 --set env.kwargs.enable_wind=true
    gymnast eval k3x9 --task acrobot          of a run with several tasks
    """
