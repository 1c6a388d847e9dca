"""`gymnast benchmark`: presets over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import Finite, app, common, on_option, quiet, show
from gymnast.core.errors import EnvFailure


@app.command(short_help="Presets over seeds: tables, curves, statistics.")
@click.argument("targets", metavar="[ENV[:VARIANT]]...", nargs=-1)
@click.option(
    "--plan",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A YAML file of rows to run; ENVs select some of them.",
)
@click.option("--seeds", metavar="N|A-B", help="The number of seeds, or the seeds: 5, 1-10, 1,4-6.  [default: 5]")
@click.option("--steps", type=click.IntRange(min=1), help="Env steps of each run.  [default: the preset's]")
@click.option("--target-score", type=Finite(), help="Mean score to reach.  [default: the env's threshold]")
@click.option("--within", type=Finite(min=0, min_open=True), help="Seconds of training in which to reach it.")
@click.option("--against", metavar="NAMES", help="Other libraries to train with the same settings, e.g. sb3.")
@click.option(
    "--python", "pythons", multiple=True, metavar="NAME=PATH", help="The interpreter another library runs in."
)
@click.option("--equal-steps", is_flag=True, help="Train for all steps, solved or not, and compare the curves.")
@click.option("--set", "set", multiple=True, metavar="KEY=VALUE", help="Change any setting. Repeatable.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Runs at the same time, with one thread each.  [default: 2; on a cluster as many as it has room for]",
)
@on_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="benchmarks",
    show_default=True,
    help="Folder for results.json, RESULTS.md and charts.",
)
@click.option(
    "--redo", is_flag=True, help="Train all runs of these rows again. Without it, only missing runs are trained."
)
@click.option("--report", is_flag=True, help="Train nothing; write RESULTS.md from the stored runs.")
@quiet
@common
def benchmark(targets: tuple[str, ...], runs_dir: Path, quiet: bool, as_json: bool, **options: Any) -> None:
    """Train presets with several seeds and report how many solve their env, how soon, and with what score.

    Each run of Gymnast is an ordinary run with the tag `benchmark`: `gymnast report`, `runs plot` and `video` take it.
    After Ctrl-C, a crash or a power cut the same command trains the missing runs. RESULTS.md is written from all
    results in the folder, with the command of each row. Rows of the same env are compared with each other.

    \b
    gymnast benchmark CartPole-v1 --seeds 5
    gymnast benchmark LunarLander-v3 --target-score 250 --within 120
    gymnast benchmark CartPole-v1:zoo Acrobot-v1:zoo --equal-steps --against sb3 --seeds 1-10
    gymnast benchmark --plan benchmarks/plan.yaml
    gymnast benchmark --plan benchmarks/plan.yaml Taxi-v4:ppo --seeds 1-2
    gymnast benchmark my.yaml:base my.yaml:slow --seeds 1-10
    gymnast benchmark CartPole-v1 --seeds 1-20 --on 10.0.0.5:6379
    gymnast benchmark --report
    """
    from gymnast.terminal.benchmark import print_benchmark
    from gymnast.terminal.progress import progress_bar
    from gymnast.verbs.benchmark.run import benchmark

    with progress_bar(quiet) as progress:
        result = benchmark(targets, runs_dir=runs_dir, progress=progress, **options)
    if not (result.failed and as_json):  # the error is the one line of JSON then
        show(result, print_benchmark)
    if result.failed:
        failed = ", ".join(result.failed)
        raise EnvFailure(f"{len(result.failed)} failed: {failed}. The same command tries them again.")
