"""What all commands share: the root command, options, and how the result of a verb is shown."""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import click

import gymnast
from gymnast.core.errors import did_you_mean
from gymnast.core.files import numbers_to_json

Command = Callable[..., Any]


class Result(Protocol):
    """What a verb returns: a dataclass that can become JSON."""

    def to_json(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Result)
OUTPUT = "gymnast.output"  # in a context's meta: standard output, where --json has put something else in its place
FOR_THE_COMMAND = {"runs_dir", "quiet", "fail_unless_solved"}  # options that a verb need not take
NOT_SOLVED = 3  # exit code of --fail-unless-solved
BAR_AFTER_SECONDS = 1.0  # of waiting without a bar
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Verbs(click.Group):
    """A group that answers a mistyped verb with the nearest ones, and keeps the order its verbs were written in."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        command = super().get_command(context, name)
        if command is None:
            context.fail(
                f"no command {name!r}.{did_you_mean(name, self.commands)} See `{context.command_path} --help`."
            )
        return command

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


class Finite(click.FloatRange):
    """A number; nan and inf are refused."""

    def _describe_range(self) -> str:
        return "" if self.min is self.max is None else super()._describe_range()  # click would print "x<=None"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        number: float = super().convert(value, param, context)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, context)
        return number


def common(function: Command) -> Command:
    """--runs-dir and --json, which every verb has; a command that does not name them in its signature gets neither."""
    unwanted = {"runs_dir", "as_json"} - inspect.signature(function, follow_wrapped=False).parameters.keys()

    @click.option(
        "--runs-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=lambda: os.environ.get("GYMNAST_RUNS") or "runs",
        show_default="$GYMNAST_RUNS or runs",
        help="Folder of the runs.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print one line of JSON at the end.")
    @functools.wraps(function)
    def verb(*args: Any, **options: Any) -> None:
        with json_alone(options["as_json"]):
            function(*args, **{name: value for name, value in options.items() if name not in unwanted})

    return verb


@contextmanager
def json_alone(wanted: bool) -> Iterator[None]:
    """With --json the JSON alone is on standard output: what people read on the way goes to standard error."""
    if not wanted:
        yield
        return
    output = sys.stdout
    try:
        output.flush()
        kept = os.dup(output.fileno())
    except (OSError, ValueError):  # no file, as in tests
        click.get_current_context().meta[OUTPUT] = output
        with redirect_stdout(sys.stderr):
            yield
        return
    # whatever envs and their processes write there as well, which do not ask Python
    with os.fdopen(kept, "w", encoding=output.encoding, errors="replace") as alone, redirect_stdout(sys.stderr):
        click.get_current_context().meta[OUTPUT] = alone
        os.dup2(sys.stderr.fileno(), output.fileno())
        try:
            yield
        finally:
            os.dup2(kept, output.fileno())


def show(result: R, printer: Callable[[R], None], always: bool = False) -> None:
    """The one place that chooses who reads a result: people, or with --json a machine. `always`: people as well."""
    options = click.get_current_context().params
    try:
        if (always or not options["as_json"]) and not options.get("quiet"):
            printer(result)
            sys.stdout.flush()
        if options["as_json"]:
            data = {**result.to_json(), "version": gymnast.__version__}
            text = json.dumps(numbers_to_json(data), allow_nan=False, default=str)  # str: of a path
            click.echo(text, file=click.get_current_context().meta[OUTPUT])
    except BrokenPipeError:
        hang_up(click.get_current_context().meta.get(OUTPUT) or sys.stdout)


def hang_up(output: IO[str]) -> None:
    """Whoever read standard output has enough (`| head -1`): what follows goes nowhere, and nothing has failed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def verb(call: str, printer: str, always: bool = False, bar_after: float = 0.0) -> Callable[[Command], Command]:
    """A command that is one call: MODULE:FUNCTION of `verbs` gets its options, one of `terminal` prints the result.

    Both are imported when they are needed. A verb that reports progress gets a bar, after so many seconds.
    """

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(runs_dir: Path, **options: Any) -> None:
            carry_out(call, printer, {**options, "runs_dir": runs_dir}, always, bar_after)

        return common(command)

    return decorate


def carry_out(call: str, printer: str, options: dict[str, Any], always: bool = False, bar_after: float = 0.0) -> None:
    """Calls MODULE:FUNCTION of `verbs`, shows the result and ends with its exit code."""
    work = _find("verbs", call)
    takes, quiet = inspect.signature(work).parameters, bool(options.get("quiet"))
    must_solve = options.get("fail_unless_solved", False)
    given = {name: value for name, value in options.items() if name in takes or name not in FOR_THE_COMMAND}
    if "say" in takes and not quiet:
        given["say"] = click.echo
    if "progress" in takes:
        with _find("terminal", "progress:progress_bar")(quiet, after=bar_after) as progress:
            result = work(**given, progress=progress)
    else:
        result = work(**given)
    show(result, lambda result: _find("terminal", printer)(result), always)
    code = getattr(result, "exit_code", 0)
    click.get_current_context().exit(NOT_SOLVED if must_solve and not code and not result.is_solved else code)


def _find(package: str, name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(f"gymnast.{package}.{module}"), function)


sets = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change any setting, e.g. --set algo.learning_rate=lin_1e-3 or --set env.kwargs.gravity=-5. Repeatable.",
)
env_sets = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting of the env, e.g. --set env.kwargs.gravity=-5. Repeatable.",
)
on_option = click.option(
    "--on",
    metavar="WHERE",
    help="Where to run: local, ray (the cluster of RAY_ADDRESS, else Ray on this machine), ray://HOST:PORT or "
    "HOST:PORT of a Ray cluster, modal.  [default: local]",
)
trust = click.option(
    "--trust", is_flag=True, help="Import the modules that the run or its file names, wherever it was made."
)
fail_unless_solved = click.option(
    "--fail-unless-solved", is_flag=True, help=f"End with exit code {NOT_SOLVED} unless the verdict says solved."
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors (and --json).")


@click.group(cls=Verbs, context_settings=CONTEXT, no_args_is_help=True)
@click.version_option(gymnast.__version__, message="gymnast %(version)s")
def app() -> None:
    """Train reinforcement-learning agents until a statistical test says solved, and see why they learn or fail.

    \b
    gymnast train CartPole-v1                 train the tuned preset until it is solved
    gymnast train LunarLander-v3:zoo          another variant of a preset
    gymnast train Acrobot-v1 --set algo.n_steps=128 --seed 3
    gymnast resume @last                      continue exactly where a run stopped
    gymnast video @best                       watch what it does
    gymnast studio                            live curves, comparison, inspector and player in the browser
    gymnast report                            the result, its reasons, and what to try next
    gymnast runs list                         all runs
    gymnast doctor                            what is installed, and how to install the rest

    \b
    For programs:
      --json                                  every command: one line of JSON, alone on standard output
      exit codes                              0 done, 1 an env failed, 2 a mistake, 3 not solved
                                              (with --fail-unless-solved), 130 interrupted
      gymnast config explain ENV --json       every setting: name, value, where it comes from, meaning
      docs/guide/programs.md                  the keys of each command's JSON
    """
