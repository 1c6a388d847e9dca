"""`gymnast config`: settings."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import Verbs, app, common, sets, show


@app.group(cls=Verbs, short_help="Show, check, format and explain configs.")
def config() -> None:
    """Configs: presets, your own YAML files, and what they resolve to."""


@config.command("show", short_help="The whole config, resolved.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@common
def config_show(target: str, overrides: tuple[str, ...]) -> None:
    """The whole config that `train` would use, as YAML."""
    from gymnast.terminal.config import print_config
    from gymnast.verbs.config import show_config

    show(show_config(target, overrides), print_config)


@config.command("check", short_help="Every mistake in a file.")
@click.argument("path", type=click.Path(path_type=Path))
@common
def config_check(path: Path) -> None:
    """Check every variant of a YAML file; all problems at once, each with its key, value and fix."""
    from gymnast.terminal.config import print_checked
    from gymnast.verbs.config import check_config

    show(check_config(path), print_checked)


@config.command("fmt", short_help="Put a file's keys in order.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@common
def config_fmt(paths: tuple[Path, ...]) -> None:
    """Put the keys of YAML files in their order; comments stay."""
    from gymnast.terminal.config import print_formatted
    from gymnast.verbs.config import format_configs

    show(format_configs(paths), print_formatted)


@config.command("explain", short_help="Where each value came from.")
@click.argument("target", metavar="ENV[:VARIANT]")
@click.argument("key", required=False)
@sets
@common
def config_explain(target: str, key: str | None, overrides: tuple[str, ...]) -> None:
    """Where each value came from and what it means; with KEY, that key or section alone.

    \b
    gymnast config explain CartPole-v1 algo
    gymnast config explain LunarLander-v3:zoo algo.gamma --set algo.gamma=0.99
    """
    from gymnast.terminal.config import print_explained
    from gymnast.verbs.config import explain_config

    show(explain_config(target, key, overrides), print_explained)
