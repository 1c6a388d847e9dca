"""The command that measures speed on this machine, and finds what trains fastest here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gymnast.cli.verbs import Finite, app, common, sets, show

WITH_TUNE = {"target", "overrides", "seconds", "tune", "write", "runs_dir", "as_json"}


@app.command(short_help="How fast training is here, and why.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seconds", type=Finite(min=0.01), help="Of each window (default: 2); with --tune in all (default: 45).")
@click.option("--windows", type=click.IntRange(min=1), default=3, show_default=True, help="The best of them counts.")
@click.option("--against", metavar="NAMES", help="Measured in turns with it: sb3,cleanrl,sample-factory,purejaxrl.")
@click.option("--python", "pythons", multiple=True, metavar="NAME=PATH", help="The interpreter a library runs in.")
@click.option("--repo", "repos", multiple=True, metavar="NAME=DIR", help="The checkout a library is imported from.")
@click.option("--startup", is_flag=True, help="Instead: from Enter to the end of a run of 5,120 steps.")
@click.option("--solve", is_flag=True, help="Instead: training time until it is solved.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of --solve.")
@click.option("--no-advice", is_flag=True, help="Do not search for the change that helps most.")
@click.option("--tune", is_flag=True, help="Instead: find the engine, envs and threads that are fastest here.")
@click.option(
    "--write", type=click.Path(dir_okay=False, path_type=Path), help="With --tune: a YAML file for the choice."
)
@common
def speed(
    target: str,
    overrides: tuple[str, ...],
    seconds: float | None,
    tune: bool,
    write: Path | None,
    no_advice: bool,
    **options: Any,
) -> None:
    """Measure training on this machine: env, collect, update and the whole, where the time goes, how near that is to
    what the machine could do, and the one change that helps most.

    With --tune, measure engines, numbers of envs and threads and choose the fastest. The result is kept for
    `env.engine: auto`, and for configs that say `env.n_envs: auto`.

    \b
    gymnast speed CartPole-v1
    gymnast speed LunarLander-v3:zoo --against sb3
    gymnast speed CartPole-v1:zoo --against sb3,cleanrl --python cleanrl=.venv-cleanrl/bin/python
    gymnast speed CartPole-v1:zoo --against sb3 --startup
    gymnast speed CartPole-v1 --against sb3 --solve --seeds 5
    gymnast speed CartPole-v1 --tune
    gymnast speed LunarLander-v3 --tune --write mine.yaml && gymnast train mine.yaml
    """
    from gymnast.terminal.progress import progress_bar
    from gymnast.terminal.speed import print_speed, print_tuning

    check_options(click.get_current_context(), tune)
    given: dict[str, Any] = {} if seconds is None else {"seconds": seconds}
    if tune:
        from gymnast.verbs.speed.tune import tune as find_fastest

        with progress_bar() as bar:
            choice = find_fastest(target, overrides, write=write, progress=bar, **given)
        show(choice, print_tuning)
    else:
        from gymnast.verbs.speed.speed import measure

        with progress_bar() as bar:
            found = measure(target, overrides, advice=not no_advice, progress=bar, **given, **options)
        show(found, print_speed)


def check_options(context: click.Context, tune: bool) -> None:
    """--tune asks another question: options of the two questions together are a mistake."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE:
            continue
        if tune and parameter.name not in WITH_TUNE:
            raise click.UsageError(f"{parameter.opts[0]} cannot be used with --tune.", context)
        if parameter.name == "write" and not tune:
            raise click.UsageError("--write needs --tune.", context)
