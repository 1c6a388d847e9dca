"""`gymnast config`: settings."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import Verbs, app, sets, verb


@app.group(cls=Verbs, short_help="Show, check, format and explain configs.")
def config() -> None:
    """Configs: presets, your own YAML files, and what they resolve to."""


@config.command("show", short_help="The whole config, resolved.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@verb("config:show_config", "config:print_config")
def config_show() -> None:
    """The whole config that `train` would use, as YAML."""


@config.command("check", short_help="Every mistake in a file.")
@click.argument("path", type=click.Path(path_type=Path))
@verb("config:check_config", "config:print_checked")
def config_check() -> None:
    """Check every variant of a YAML file; all problems at once, each with its key, value and fix."""


@config.command("fmt", short_help="Put a file's keys in order.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; fail where a file is not in order.")
@verb("config:format_configs", "config:print_formatted")
def config_fmt() -> None:
    """Put the keys of YAML files in their order; comments stay."""


@config.command("explain", short_help="Where each value came from.")
@click.argument("target", metavar="ENV[:VARIANT]")
@click.argument("key", required=False)
@sets
@verb("config:explain_config", "config:print_explained")
def config_explain() -> None:
    """Where each value came from and what it means; with KEY, that key or section alone.

    \b
    gymnast config explain CartPole-v1 algo
    gymnast config explain LunarLander-v3:zoo algo.gamma --set algo.gamma=0.99
    """
