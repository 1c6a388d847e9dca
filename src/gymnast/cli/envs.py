"""`gymnast envs`: environments."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import BAR_AFTER_SECONDS, Verbs, app, sets, verb


@app.group(cls=Verbs, short_help="List, show, check and audit environments.")
def envs() -> None:
    """Environments: those with presets, and any other that Gymnasium knows."""


@envs.command("list", short_help="Envs with presets.")
@click.option("--all", "everything", is_flag=True, help="Also every other id registered with Gymnasium.")
@verb("envs.show:list_envs", "envs:print_envs")
def envs_list() -> None:
    """Envs with presets, their variants and what it takes to solve them."""


@envs.command("show", short_help="Facts about one env.")
@click.argument("target", metavar="ENV")
@verb("envs.show:show_env", "envs:print_env")
def envs_show() -> None:
    """What an env is: actions, observations, rewards, when it is solved, what others reached."""


@envs.command("check", short_help="Step envs through their engines: do they work?")
@click.argument("targets", metavar="[ENV[:VARIANT]]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every variant: of the named envs, or of all presets.")
@sets
@click.option("--steps", type=click.IntRange(min=1), help="Vector steps; default: 1000, or 200 of each of several.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="At most so long, for one env.",
)
@verb("envs.check:check", "check:print_check", bar_after=BAR_AFTER_SECONDS)
def envs_check() -> None:
    """Build ENV as training would, step it with random actions and report what it gives and how fast.

    Of several envs, or with --all, one line each: whether training and evaluation build, step, repeat themselves from a
    seed, reset after an end and draw a picture, and whether the facts in the preset are true. The exit code is 1 if
    anything fails. Families that are not installed are named with the command that adds them.

    \b
    gymnast envs check LunarLander-v3
    gymnast envs check CartPole-v1 Hopper-v5
    gymnast envs check ALE/Pong-v5 --all
    gymnast envs check --all --json
    """


@envs.command("audit", short_help="Whether there is something to learn in an env.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Vector steps.")
@click.option("--seed", type=click.IntRange(min=0), help="Of envs and actions; default: train.seed.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Histograms: FILE.png, .svg or .pdf.")
@verb("envs.audit:audit_env", "audit:print_audit", bar_after=BAR_AFTER_SECONDS)
def envs_audit() -> None:
    """Build ENV as training would, step it with random actions and report rewards, episodes, whether its parallel
    copies differ at all, how alike their transitions are, and whether a seed repeats them.

    \b
    gymnast envs audit FrozenLake-v1
    gymnast envs audit LunarLander-v3 --steps 5000 --picture rewards.png
    gymnast envs audit MountainCar-v0:ppo --seed 3 --json
    """
