"""Verbs that measure: speed, learning over seeds, and what is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import app, common, quiet, sets


@app.command(short_help="How fast training is here, and why.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seconds", type=click.FloatRange(min=0.01), default=2.0, show_default=True, help="Of each window.")
@click.option("--windows", type=click.IntRange(min=1), default=3, show_default=True, help="The best of them counts.")
@click.option("--against", metavar="NAMES", help="Measured beside it: sb3,cleanrl,sample-factory.")
@click.option("--python", "pythons", multiple=True, metavar="NAME=PATH", help="The interpreter a rival runs in.")
@click.option("--startup", is_flag=True, help="Instead: from Enter to the end of a run of 5,120 steps.")
@click.option("--solve", is_flag=True, help="Instead: training time until it is solved.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of --solve.")
@click.option("--no-advice", is_flag=True, help="Do not look for the change that helps most.")
@common
def bench(
    target: str, overrides: tuple[str, ...], no_advice: bool, runs_dir: Path, as_json: bool, **options: Any
) -> Any:
    """Measure training on this machine: env, collect, update and the whole, where the time goes, how near that is to
    what the machine could do, and the one change that helps most.

    \b
    gymnast bench CartPole-v1
    gymnast bench LunarLander-v3:zoo --against sb3
    gymnast bench CartPole-v1:zoo --against sb3,cleanrl --python cleanrl=.venv-cleanrl/bin/python
    gymnast bench CartPole-v1:zoo --against sb3 --startup
    gymnast bench CartPole-v1 --against sb3 --solve --seeds 5
    """
    from gymnast.verbs.speed.speed import bench

    return bench(target, overrides, advice=not no_advice, as_json=as_json, **options)


@app.command(short_help="Find what trains fastest here.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seconds", type=click.FloatRange(min=0.1), default=45.0, show_default=True, help="To spend in all.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="A YAML file for the choice.")
@common
def tune(
    target: str, overrides: tuple[str, ...], seconds: float, write: Path | None, runs_dir: Path, as_json: bool
) -> Any:
    """Measure engines, numbers of envs and threads on this machine and choose the fastest.

    The result is kept for `env.engine: auto`, and for configs that say `env.n_envs: auto`.

    \b
    gymnast tune CartPole-v1
    gymnast tune LunarLander-v3 --write mine.yaml && gymnast train mine.yaml
    """
    from gymnast.verbs.speed.tune import tune

    return tune(target, overrides, seconds=seconds, write=write, as_json=as_json)


@app.command(short_help="Presets over seeds: tables, curves, statistics.")
@click.argument("targets", metavar="[ENV[:VARIANT]]...", nargs=-1)
@click.option(
    "--plan", type=click.Path(dir_okay=False, path_type=Path), help="Rows from a YAML file; ENVs choose some."
)
@click.option("--seeds", metavar="N|A-B", help="How many seeds, or which: 5, 1-10, 1,4-6.  [default: 5]")
@click.option("--steps", type=click.IntRange(min=1), help="Env steps of a run; else the preset's.")
@click.option("--bar", type=float, help="Mean score to reach; else what counts as solved.")
@click.option("--within", type=click.FloatRange(min=0, min_open=True), help="Seconds of training to reach it in.")
@click.option("--against", metavar="NAMES", help="Other libraries to train with the same settings, e.g. sb3.")
@click.option("--python", "pythons", multiple=True, metavar="NAME=PATH", help="The interpreter a rival runs in.")
@click.option("--equal-steps", is_flag=True, help="Train for all steps, solved or not, and compare the curves.")
@click.option("--set", "set", multiple=True, metavar="KEY=VALUE", help="Change any setting. Repeatable.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Runs at a time, a thread each.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="benchmarks",
    show_default=True,
    help="Folder for results.json, RESULTS.md and pictures.",
)
@click.option("--redo", is_flag=True, help="Forget the runs of these rows first. Leave it out to go on after a stop.")
@click.option("--report", is_flag=True, help="Run nothing: make RESULTS.md from what is there.")
@quiet
@common
def benchmark(targets: tuple[str, ...], runs_dir: Path, **options: Any) -> Any:
    """Train presets over several seeds and say with statistics how well, how soon and how fast they solve.

    Every run is kept as it ends: after Ctrl-C, a crash or a power cut the same command does what is left. RESULTS.md is
    made from all that is in the folder, with the command that makes each row.

    \b
    gymnast benchmark CartPole-v1 --seeds 5
    gymnast benchmark LunarLander-v3 --bar 250 --within 120
    gymnast benchmark CartPole-v1:zoo Acrobot-v1:zoo --equal-steps --against sb3 --seeds 1-10
    gymnast benchmark --plan benchmarks/plan.yaml
    gymnast benchmark --plan benchmarks/plan.yaml Taxi-v4:ppo --seeds 1-2
    gymnast benchmark --report
    """
    from gymnast.verbs.benchmark.benchmark import benchmark

    return benchmark(targets, **options)


@app.command(short_help="What is installed and what is missing.")
@common
def doctor(runs_dir: Path, as_json: bool) -> Any:
    """What is installed, what is missing, and the one command that adds it."""
    from gymnast.verbs.doctor import examine

    return examine(runs_dir, as_json)
