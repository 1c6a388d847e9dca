"""`gymnast config`: settings."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import Verbs, app, sets, trust, verb


@app.group(cls=Verbs, short_help="Show, check, format and explain configs.")
def config() -> None:
    """Configs: presets, your own YAML files, and what they resolve to."""


@config.command("show", short_help="Show the complete config.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@trust
@verb("config:show_config", "config:print_config")
def config_show() -> None:
    """Show the complete config that `train` would use, as YAML.

    \b
    gymnast config show CartPole-v1
    gymnast config show LunarLander-v3:zoo --set algo.gamma=0.99 > my.yaml
    """


@config.command("check", short_help="Check a file.")
@click.argument("path", type=click.Path(path_type=Path))
@trust
@verb("config:check_config", "config:print_checked")
def config_check() -> None:
    """Check every variant of a YAML file and report all problems, each with its key, its value and the fix.

    \b
    gymnast config check my.yaml
    """


@config.command("fmt", short_help="Sort the keys of a file.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is not sorted.")
@verb("config:format_configs", "config:print_formatted")
def config_fmt() -> None:
    """Sort the keys of YAML files; comments are kept.

    \b
    gymnast config fmt my.yaml other.yaml
    gymnast config fmt --check *.yaml
    """


@config.command("explain", short_help="Show where each value comes from.")
@click.argument("target", metavar="ENV[:VARIANT]")
@click.argument("key", required=False)
@sets
@trust
@verb("config:explain_config", "config:print_explained")
def config_explain() -> None:
    """Show where each value comes from and what it means; with KEY, only that key or section.

    \b
    gymnast config explain CartPole-v1 algo
    gymnast config explain LunarLander-v3:zoo algo.gamma --set algo.gamma=0.99
    """
