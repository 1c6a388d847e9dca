"""`gymnast envs`: environments."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import BAR_AFTER_SECONDS, Verbs, app, sets, verb


@app.group(cls=Verbs, short_help="List, show, check and audit environments.")
def envs() -> None:
    """Environments with presets, and all others that are registered with Gymnasium."""


@envs.command("list", short_help="List envs with presets.")
@click.option("--all", "everything", is_flag=True, help="Also list all other ids registered with Gymnasium.")
@verb("envs.show:list_envs", "envs:print_envs")
def envs_list() -> None:
    """List envs with presets, their variants and their thresholds."""


@envs.command("show", short_help="Describe one env.")
@click.argument("target", metavar="ENV")
@verb("envs.show:show_env", "envs:print_env")
def envs_show() -> None:
    """Describe an env: actions, observations, rewards, threshold, published scores."""


@envs.command("check", short_help="Test an env with random actions.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option(
    "--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Steps of the vector of envs."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Time limit in seconds.",
)
@verb("envs.check:check_env", "check:print_check", bar_after=BAR_AFTER_SECONDS)
def envs_check() -> None:
    """Build ENV as training does, take random actions, and report spaces, rewards, lengths and speed."""


@envs.command("audit", short_help="Find out whether an env has something to learn.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option(
    "--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Steps of the vector of envs."
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of envs and actions.  [default: train.seed]")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write histograms to FILE.png, .svg or .pdf."
)
@verb("envs.audit:audit_env", "audit:print_audit", bar_after=BAR_AFTER_SECONDS)
def envs_audit() -> None:
    """Build ENV as training does, take random actions, and report rewards, episodes, whether parallel envs differ,
    how many transitions are distinct, and whether the same seed gives the same episode.

    \b
    gymnast envs audit FrozenLake-v1
    gymnast envs audit LunarLander-v3 --steps 5000 --picture rewards.png
    gymnast envs audit MountainCar-v0:ppo --seed 3 --json
    """
