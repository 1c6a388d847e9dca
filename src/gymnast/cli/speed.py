"""The command that measures speed on this machine, and finds what trains fastest here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gymnast.cli.verbs import Finite, app, common, on_option, sets, show

WITH_ON = {"target", "overrides", "seconds", "windows", "on", "out", "runs_dir", "as_json"}
WITH_TUNE = {"target", "overrides", "seconds", "tune", "write", "runs_dir", "as_json"}


@app.command(short_help="Measure the speed of training on this machine.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option(
    "--seconds",
    type=Finite(min=0.01),
    help="Seconds of each measurement (default: 2); with --tune, of all together (default: 45).",
)
@click.option(
    "--windows",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of measurements; the best one counts.",
)
@click.option("--against", metavar="NAMES", help="Libraries to compare with: sb3,cleanrl,sample-factory,purejaxrl.")
@click.option("--python", "pythons", multiple=True, metavar="NAME=PATH", help="The Python interpreter of a library.")
@click.option("--repo", "repos", multiple=True, metavar="NAME=DIR", help="The checkout a library is imported from.")
@click.option(
    "--startup", is_flag=True, help="Measure a complete run of 5,120 steps instead, from the start of the process."
)
@click.option("--solve", is_flag=True, help="Measure the training time until solved instead.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Number of runs of --solve.")
@click.option("--no-advice", is_flag=True, help="Do not search for the change that helps most.")
@click.option("--tune", is_flag=True, help="Find the fastest engine, number of envs and threads instead.")
@click.option(
    "--write", type=click.Path(dir_okay=False, path_type=Path), help="With --tune: write the choice to a YAML file."
)
@on_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --on: write a picture of the throughput: FILE.png, .svg or .pdf.",
)
@common
def speed(
    target: str,
    overrides: tuple[str, ...],
    seconds: float | None,
    tune: bool,
    write: Path | None,
    no_advice: bool,
    on: str | None,
    out: Path | None,
    **options: Any,
) -> None:
    """Measure the speed of the env, of collecting, of updating and of training on this machine, where the time goes,
    how far that is from the limit of the machine, and which single change helps most.

    With --tune, measure engines, numbers of envs and threads and choose the fastest. The result is stored for
    `env.engine: auto`, and for configs with `env.n_envs: auto`.

    With --on, measure training elsewhere, with one actor and more, compared with training here.

    \b
    gymnast speed CartPole-v1
    gymnast speed LunarLander-v3:zoo --against sb3
    gymnast speed CartPole-v1:zoo --against sb3,cleanrl --python cleanrl=.venv-cleanrl/bin/python
    gymnast speed CartPole-v1:zoo --against sb3 --startup
    gymnast speed CartPole-v1 --against sb3 --solve --seeds 5
    gymnast speed CartPole-v1 --tune
    gymnast speed LunarLander-v3 --tune --write mine.yaml && gymnast train mine.yaml
    gymnast speed CartPole-v1 --on ray --out actors.png
    """
    from gymnast.terminal.progress import progress_bar
    from gymnast.terminal.speed import print_speed, print_tuning

    check_options(click.get_current_context(), tune, on is not None)
    given: dict[str, Any] = {} if seconds is None else {"seconds": seconds}
    if on is not None:
        from gymnast.terminal.speed import print_elsewhere
        from gymnast.verbs.speed.elsewhere import measure_elsewhere

        with progress_bar() as bar:
            there = measure_elsewhere(target, overrides, on, windows=options["windows"], out=out, progress=bar, **given)
        show(there, print_elsewhere)
    elif tune:
        from gymnast.verbs.speed.tune import tune as find_fastest

        with progress_bar() as bar:
            choice = find_fastest(target, overrides, write=write, progress=bar, **given)
        show(choice, print_tuning)
    else:
        from gymnast.verbs.speed.speed import measure

        with progress_bar() as bar:
            found = measure(target, overrides, advice=not no_advice, progress=bar, **given, **options)
        show(found, print_speed)


def check_options(context: click.Context, tune: bool, elsewhere: bool) -> None:
    """--tune and --on ask other questions: options of two questions together are a mistake."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE:
            continue
        if tune and parameter.name not in WITH_TUNE:
            raise click.UsageError(f"{parameter.opts[0]} cannot be used with --tune.", context)
        if elsewhere and parameter.name not in WITH_ON:
            raise click.UsageError(f"{parameter.opts[0]} cannot be used with --on.", context)
        if parameter.name == "write" and not tune:
            raise click.UsageError("--write needs --tune.", context)
        if parameter.name == "out" and not elsewhere:
            raise click.UsageError("--out needs --on.", context)
