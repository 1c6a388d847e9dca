"""Verbs over environments and configs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import Verbs, app, common, sets
from gymnast.core.errors import UserError


@app.group(cls=Verbs, short_help="List, show, check and audit environments.")
def envs() -> None:
    """Environments: those with presets, and any other that Gymnasium knows."""


@envs.command("list", short_help="Envs with presets.")
@click.option("--all", "everything", is_flag=True, help="Also every other id registered with Gymnasium.")
@common
def envs_list(everything: bool, runs_dir: Path, as_json: bool) -> Any:
    """Envs with presets, their variants and what it takes to solve them."""
    from gymnast.verbs.envs import list_envs

    return list_envs(everything, as_json)


@envs.command("show", short_help="Facts about one env.")
@click.argument("env")
@common
def envs_show(env: str, runs_dir: Path, as_json: bool) -> Any:
    """What an env is: actions, observations, rewards, when it is solved, what others reached."""
    from gymnast.verbs.envs import show_env

    return show_env(env, as_json)


@envs.command("check", short_help="Step an env through its engine.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Vector steps.")
@common
def envs_check(target: str, overrides: tuple[str, ...], steps: int, runs_dir: Path, as_json: bool) -> Any:
    """Build ENV as training would, step it with random actions and report what it gives and how fast."""
    from gymnast.verbs.audit.check import check_env

    return check_env(target, overrides, steps, as_json)


@envs.command("audit", short_help="What there is to learn from in an env.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Vector steps.")
@click.option("--seed", type=click.IntRange(min=0), help="Of envs and actions; default: train.seed.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="A PNG file for the histograms.")
@common
def envs_audit(
    target: str,
    overrides: tuple[str, ...],
    steps: int,
    seed: int | None,
    picture: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> Any:
    """Build ENV as training would, step it with random actions and report rewards, episodes, whether its parallel
    copies differ at all, how alike their transitions are, and whether a seed repeats them.

    \b
    gymnast envs audit FrozenLake-v1
    gymnast envs audit LunarLander-v3 --steps 5000 --picture rewards.png
    gymnast envs audit MountainCar-v0:ppo --seed 3 --json
    """
    from gymnast.verbs.audit.audit import audit_env

    return audit_env(target, overrides, steps, seed, picture, as_json)


@app.group(cls=Verbs, short_help="Show, check, format and explain configs.")
def config() -> None:
    """Configs: presets, your own YAML files, and what they resolve to."""


@config.command("show", short_help="The whole config, resolved.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@common
def config_show(target: str, overrides: tuple[str, ...], runs_dir: Path, as_json: bool) -> Any:
    """The whole config that `train` would use, as YAML."""
    from gymnast.verbs.config import show_config

    return show_config(target, overrides, as_json)


@config.command("check", short_help="Every mistake in a file.")
@click.argument("path", type=click.Path(path_type=Path))
@common
def config_check(path: Path, runs_dir: Path, as_json: bool) -> Any:
    """Check every variant of a YAML file; all problems at once, each with its key, value and fix."""
    from gymnast.config import check_file

    if problems := check_file(path):
        raise UserError("\n".join(problems))
    if not as_json:
        click.echo(f"{path}: no problems")
    return {"file": str(path), "problems": []}


@config.command("fmt", short_help="Put a file's keys in order.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@common
def config_fmt(paths: tuple[Path, ...], runs_dir: Path, as_json: bool) -> Any:
    """Put the keys of YAML files in their order; comments stay."""
    from gymnast.config import format_file

    changed = [str(path) for path in paths if format_file(path)]
    for path in paths if not as_json else ():
        click.echo(f"{path}: {'formatted' if str(path) in changed else 'in order already'}")
    return {"formatted": changed}


@config.command("explain", short_help="Where each value came from.")
@click.argument("target", metavar="ENV[:VARIANT]")
@click.argument("key", required=False)
@sets
@common
def config_explain(target: str, key: str | None, overrides: tuple[str, ...], runs_dir: Path, as_json: bool) -> Any:
    """Where each value came from and what it means; with KEY, that key or section alone.

    \b
    gymnast config explain CartPole-v1 algo
    gymnast config explain LunarLander-v3:zoo algo.gamma --set algo.gamma=0.99
    """
    from gymnast.verbs.config import explain_config

    return explain_config(target, key, overrides, as_json)
