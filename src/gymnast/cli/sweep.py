"""`gymnast sweep`: better settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import Finite, app, common, on_option, quiet, sets, show, trust


@app.command(short_help="Search better settings, and confirm them on fresh seeds.")
@click.argument("target", metavar="[ENV[:VARIANT]|FILE]", required=False)
@click.option(
    "--from",
    "start",
    metavar="REF",
    help="Start from the config of this run; with a checkpoint (RUN/best), from its agent, too.",
)
@click.option(
    "--search",
    multiple=True,
    metavar="KEY=RANGE",
    help="What to vary, e.g. algo.learning_rate=log(1e-4,1e-2). Repeatable.  [default: what the preset names]",
)
@click.option(
    "--space", type=click.Path(dir_okay=False, path_type=Path), help="A YAML file of ranges, or a W&B sweep file."
)
@click.option("--sampler", type=click.Choice(["random", "grid", "tpe", "gp"]), help="How to draw.  [default: tpe]")
@click.option("--trials", type=click.IntRange(min=1), default=16, show_default=True, help="Configs to draw.")
@click.option("--steps", type=click.IntRange(min=1), help="Env steps of a full run.  [default: the preset's]")
@click.option(
    "--seeds",
    type=click.IntRange(min=2, max=1000),
    default=5,
    show_default=True,
    help="Fresh seeds of the confirmation.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the sweep itself.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Trainings at the same time.  [default: 2, or what a cluster has room for]",
)
@on_option
@click.option(
    "--minutes",
    type=Finite(min=0, min_open=True),
    help="Draw only as many configs as are expected to fit into this time.",
)
@click.option("--name", help="Folder of the sweep in RUNS/sweeps.  [default: from what is asked]")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the better settings.  [default: best.yaml in the sweep's folder]",
)
@click.option(
    "--against",
    metavar="ENV[:VARIANT]|FILE",
    help="Try the values of this config, too, and compare the winner with it.",
)
@sets
@trust
@quiet
@common
def sweep(target: str | None, runs_dir: Path, quiet: bool, as_json: bool, **options: Any) -> None:
    """Search better settings for an env with few seeds, and confirm the best one on fresh seeds.

    \b
    gymnast sweep CartPole-v1
    gymnast sweep LunarLander-v3 --trials 32 --minutes 60
    gymnast sweep my.yaml --search 'algo.learning_rate=log(1e-4,1e-2)' --search 'algo.n_steps=[32,64,128]'
    gymnast sweep CartPole-v1 --space space.yaml --sampler random
    """
    from gymnast.terminal.progress import progress_bar
    from gymnast.terminal.sweep import print_sweep
    from gymnast.verbs.sweep.run import sweep

    with progress_bar(quiet) as progress:
        result = sweep(target, runs_dir=runs_dir, progress=progress, **options)
    show(result, print_sweep)
