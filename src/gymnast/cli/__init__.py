"""The `gymnast` command: verbs, options and nothing else. A verb is one call into `verbs`, imported when it runs."""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import sys
import threading
from importlib import import_module
from typing import NoReturn

import click

import gymnast
from gymnast.cli.verbs import app, hang_up
from gymnast.core.errors import EnvFailure, Stopped, UserError
from gymnast.core.text import plain_warnings, printable, printable_lines

__all__ = ["app", "entry", "main"]

MOST_LINES = 100

# Each module adds its verbs to the root command; `gymnast --help` shows them in this order.
MODULES = "train eval video report studio runs envs config speed benchmark sweep autotune ray doctor"
for module in MODULES.split():
    import_module(f"gymnast.cli.{module}")


def usage_line(error: click.ClickException) -> str:
    """What is wrong with the command line, and where to look; nothing for a bare group, which is asked for help."""
    message = error.format_message()
    if "\n" in message:
        return ""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption) and context and any(p.name == "overrides" for p in context.command.params):
        message = _as_setting(error.option_name) or message
    advice = f" See `{context.command_path} --help`." if context is not None and "--help" not in message else ""
    return f"{message}{advice}"


def tell(problem: object) -> str:
    """Prints what is wrong, a line each. Whatever a file or a user wrote is in it: nothing of it reaches a terminal
    as it is, and it has an end."""
    lines = str(problem).splitlines()
    said = [printable(line) for line in lines[:MOST_LINES]]
    said += [f"... and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    click.echo("\n".join(f"gymnast: {line}" for line in said), err=True)
    return "\n".join(said)


def _as_setting(option: str) -> str | None:
    """An option that other programs have for one of our settings, answered with how it is set here."""
    from gymnast.config import RunConfig
    from gymnast.config.problems import known_keys

    name = option.lstrip("-").replace("-", "_")
    given = [*sys.argv, "VALUE"]
    value = next((given[i + 1] for i, word in enumerate(given[:-1]) if word == option), "VALUE")
    if name in ("algo", "env"):
        written = f"ENV:{value}" if name == "algo" else value
        return f"No such option {option!r}. The {name} is part of the target: 'gymnast train {written}'."
    name = {"lr": "learning_rate", "timesteps": "total_timesteps", "num_envs": "n_envs"}.get(name, name)
    key = next((key for key in known_keys(RunConfig) if key.rpartition(".")[2] == name), None)
    return key and f"No such option {option!r}. Did you mean '--set {key}={value}'?"


def main() -> NoReturn:
    """Runs the command; a user's mistake is one line and ends with 2, an env's failure with 1."""
    code, failure = 0, None
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C, where nothing else is done about it
        if signal.getsignal(number) == signal.SIG_DFL and threading.current_thread() is threading.main_thread():
            signal.signal(number, signal.default_int_handler)
    plain_warnings()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without a letter gets a question mark
    try:
        code = app.main(prog_name="gymnast", standalone_mode=False) or 0
    except click.ClickException as error:
        code, failure = error.exit_code, usage_line(error)
        if failure:
            failure = tell(failure)
        else:
            error.show()
    except UserError as error:
        code, failure = 2, tell(error)
    except BrokenPipeError:
        hang_up(sys.stdout)
    except (OSError, MemoryError) as error:  # a disk that is full, a folder that is gone, more than the machine has
        place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        reason = error.strerror or error if isinstance(error, OSError) else f"not enough memory. {error}"
        code, failure = 2, tell(f"{place}{reason}")
    except ImportError as error:  # a package that is damaged, or has too little memory (ulimit -v) to be loaded
        code, failure = 2, tell(f"a package cannot be imported: {' '.join(str(error).split())}")
    except (EnvFailure, Stopped) as error:
        failure = printable_lines(str(error))
        click.echo(f"gymnast: {failure}", err=True)
        code = 130 if isinstance(error, Stopped) else 1
    except (KeyboardInterrupt, click.Abort):
        click.echo("gymnast: stopped at once; everything saved so far is intact (`gymnast runs list`).", err=True)
        code, failure = 130, "interrupted"
    if failure is not None and "--json" in sys.argv:
        click.echo(json.dumps({"error": failure, "version": gymnast.__version__}))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        hang_up(sys.stdout)
    sys.exit(code)


def entry() -> NoReturn:
    """The command as installed. All is written and closed by now; taking torch apart would cost half a second.

    What was registered for the end (temporary folders) is still done.
    """
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(end.code if isinstance(end.code, int) else 1)
