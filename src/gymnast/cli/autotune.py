"""`gymnast autotune`."""

from __future__ import annotations

import click

from gymnast.cli.verbs import app, quiet, sets, trust, verb


@app.command(short_help="Train, read the alerts, try what they advise, until it is solved.")
@click.argument("target", metavar="ENV[:VARIANT]|REF")
@sets
@click.option(
    "--budget",
    metavar="TIME|STEPS",
    help="What all runs together may cost: 20m, 2h, or env steps like 500k, 2M.  [default: 10 times the run's steps]",
)
@click.option("--seed", type=int, help="Short for --set train.seed=N.")
@trust
@click.option("--tag", "tags", multiple=True, help="A word to find its runs by. Repeatable.")
@quiet
@verb("autotune.run:autotune", "autotune:print_autotuned")
def autotune() -> None:
    """Train ENV, or go on from the run REF, and repair the settings on the way, without anybody watching.

    When an alert fires, or the score stands still, the change that is advised is tried in a run of its own, from the
    same checkpoint and with the same seeds as the run as it is. Whichever scores better goes on. A damaged agent is
    compared with a new one that has the change from step 0. It ends when a run is solved, by the same verdict as
    `gymnast train`, or when the budget is spent.

    The journal (what was tried, why, what came of it) and a config file with the settings that were kept are in
    RUNS/autotune/. After Ctrl-C or a crash the same command goes on where it was.

    \b
    gymnast autotune CartPole-v1 --set algo.learning_rate=1.0
    gymnast autotune LunarLander-v3 --set algo.gamma=0.5 --budget 3M
    gymnast autotune my_env.yaml --budget 20m --json
    gymnast autotune @last --budget 1h            a run that did not get there
    """
