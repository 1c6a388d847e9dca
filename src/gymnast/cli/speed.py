"""Verbs that measure speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import app, common, sets


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
