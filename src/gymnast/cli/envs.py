"""`gymnast envs`: environments."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import Verbs, app, common, sets, show

BAR_AFTER_SECONDS = 2.0  # of waiting without a bar


@app.group(cls=Verbs, short_help="List, show, check and audit environments.")
def envs() -> None:
    """Environments: those with presets, and any other that Gymnasium knows."""


@envs.command("list", short_help="Envs with presets.")
@click.option("--all", "everything", is_flag=True, help="Also every other id registered with Gymnasium.")
@common
def envs_list(everything: bool) -> None:
    """Envs with presets, their variants and what it takes to solve them."""
    from gymnast.terminal.envs import print_envs
    from gymnast.verbs.envs.show import list_envs

    show(list_envs(everything), print_envs)


@envs.command("show", short_help="Facts about one env.")
@click.argument("env")
@common
def envs_show(env: str) -> None:
    """What an env is: actions, observations, rewards, when it is solved, what others reached."""
    from gymnast.terminal.envs import print_env
    from gymnast.verbs.envs.show import show_env

    show(show_env(env), print_env)


@envs.command("check", short_help="Step an env through its engine.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Vector steps.")
@common
def envs_check(target: str, overrides: tuple[str, ...], steps: int) -> None:
    """Build ENV as training would, step it with random actions and report what it gives and how fast."""
    from gymnast.terminal.check import print_check
    from gymnast.terminal.progress import progress_bar
    from gymnast.verbs.envs.check import check_env

    with progress_bar(after=BAR_AFTER_SECONDS) as progress:
        result = check_env(target, overrides, steps, progress)
    show(result, print_check)


@envs.command("audit", short_help="What there is to learn from in an env.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Vector steps.")
@click.option("--seed", type=click.IntRange(min=0), help="Of envs and actions; default: train.seed.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Histograms: FILE.png, .svg or .pdf.")
@common
def envs_audit(target: str, overrides: tuple[str, ...], steps: int, seed: int | None, picture: Path | None) -> None:
    """Build ENV as training would, step it with random actions and report rewards, episodes, whether its parallel
    copies differ at all, how alike their transitions are, and whether a seed repeats them.

    \b
    gymnast envs audit FrozenLake-v1
    gymnast envs audit LunarLander-v3 --steps 5000 --picture rewards.png
    gymnast envs audit MountainCar-v0:ppo --seed 3 --json
    """
    from gymnast.terminal.audit import print_audit
    from gymnast.terminal.progress import progress_bar
    from gymnast.verbs.envs.audit import audit_env

    with progress_bar(after=BAR_AFTER_SECONDS) as progress:
        result = audit_env(target, overrides, steps, seed, picture, progress)
    show(result, print_audit)
