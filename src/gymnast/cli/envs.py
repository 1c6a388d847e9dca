"""`gymnast envs`: environments."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import BAR_AFTER_SECONDS, Verbs, app, sets, verb


@app.group(cls=Verbs, short_help="List, show, check and audit environments, import ROMs.")
def envs() -> None:
    """Environments with presets, and all others that are registered with Gymnasium."""


@envs.command("list", short_help="List envs with presets.")
@click.option("--all", "everything", is_flag=True, help="Also list all other ids registered with Gymnasium.")
@verb("envs.show:list_envs", "envs:print_envs")
def envs_list() -> None:
    """List envs with presets, their variants and their thresholds.

    \b
    gymnast envs list
    gymnast envs list --all --json
    """


@envs.command("show", short_help="Describe one env.")
@click.argument("target", metavar="ENV")
@verb("envs.show:show_env", "envs:print_env")
def envs_show() -> None:
    """Describe an env: actions, observations, rewards, threshold, published scores.

    \b
    gymnast envs show LunarLander-v3
    """


@envs.command("check", short_help="Test envs with random actions.")
@click.argument("targets", metavar="[ENV[:VARIANT]]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Check every variant: of the named envs, or of all presets.")
@sets
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Steps of the vector of envs.  [default: 1000; 200 for each of several envs]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Time limit in seconds, for one env.",
)
@verb("envs.check:check", "check:print_check", bar_after=BAR_AFTER_SECONDS)
def envs_check() -> None:
    """Build ENV as training does, take random actions, and report spaces, rewards, lengths and speed.

    For several envs, or with --all, it prints one line each: whether the env can be built for training and for
    evaluation, steps, gives the same episode for the same seed, resets after an end and draws a picture, and whether
    the facts in the preset are true. The exit code is 1 if anything fails. For a family that is not installed it
    prints the command that installs it.

    \b
    gymnast envs check LunarLander-v3
    gymnast envs check CartPole-v1 Hopper-v5
    gymnast envs check ALE/Pong-v5 --all
    gymnast envs check --all --json
    """


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


@envs.command("import-rom", short_help="Import your ROMs of console games.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@verb("envs.import_rom:import_rom", "envs:print_import")
def envs_import_rom() -> None:
    """Find the ROMs of console games (Retro/...) in DIR and its subfolders, and copy those that are known.

    A ROM is known by its hash, as stable-retro knows it. The name of the file does not matter; .zip files are opened.
    It is copied into $GYMNAST_RETRO, else ~/.local/share/gymnast/retro. The files in DIR are not changed.

    \b
    gymnast envs import-rom ~/roms
    gymnast envs import-rom ~/roms --json
    """
