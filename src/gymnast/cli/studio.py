"""`gymnast studio|play`: the web app."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click

from gymnast.cli.verbs import Command, app, common
from gymnast.core.errors import UserError
from gymnast.studio import TOKEN


def served(function: Command) -> Command:
    """Where the page is served."""
    for option in (
        click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port.  [default: any free one]"),
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Address; beyond this machine with a token."
        ),
        click.option(
            "--token",
            envvar=TOKEN,
            help="Secret in the address of the page. Other users of this machine can read an option, but not the "
            f"variable {TOKEN}.  [default: a new one each time]",
        ),
        click.option("--no-browser", is_flag=True, help="Print the address and open no browser."),
    ):
        function = option(function)
    return common(function)


@app.command(short_help="Watch, compare, inspect and play in the browser.")
@click.argument("ref", required=False)
@served
def studio(ref: str | None, runs_dir: Path, **where: Any) -> None:
    """Open Studio, a local web app: live curves of all runs, comparison, an inspector, a player. REF: open that run.

    It listens on this machine only, and ends with Ctrl-C. Runs that were started from its pages go on.

    \b
    gymnast studio                            all runs
    gymnast studio @last                      the newest run, live
    gymnast studio --no-browser --port 8000   print the address only
    """
    if ref is not None and not ref.startswith("@"):
        from gymnast.runs.references import resolve

        ref = resolve(ref, runs_dir).id  # a typo is answered here, not on the page
    _serve("/runs" if ref is None else f"/runs/{quote(ref, safe='@')}", runs_dir, **where)


@app.command(short_help="Play an env, or watch an agent, in the browser.")
@click.argument("target", metavar="ENV|REF")
@click.option("--against", metavar="REF|random", help="Who plays against you in the same game (VizdoomDeathmatch-v1).")
@served
def play(target: str, against: str | None, runs_dir: Path, **where: Any) -> None:
    """Open Studio on its player: keyboard, a trained agent, a random or untrained one, and take-over in mid-episode.

    \b
    gymnast play CartPole-v1                  with the keyboard
    gymnast play @best                        watch an agent, take over, give back
    gymnast play VizdoomDeathmatch-v1 --against @best
    """
    what = _what(target, runs_dir)
    if against is not None:
        from gymnast.runs.references import resolve_checkpoint

        if against != "random":
            resolve_checkpoint(against, runs_dir)  # a typo is answered here, not on the page
        what["against"] = against
    _serve(f"/play?{urlencode(what)}", runs_dir, **where)


def _what(target: str, runs_dir: Path) -> dict[str, str]:
    """An env by its id, else a run."""
    from gymnast.config.files import is_preset
    from gymnast.config.layers import split_target
    from gymnast.runs.references import resolve

    if is_preset(split_target(target)[0]):
        return {"env": target}
    try:
        resolve(target, runs_dir)
    except UserError:
        if target.startswith("@"):
            raise
        from gymnast.verbs.train import require_env

        require_env(split_target(target)[0])  # neither a run nor an env: the nearest ids
        return {"env": target}
    return {"ref": target}


def _serve(page: str, runs_dir: Path, host: str, port: int, token: str | None, no_browser: bool) -> None:
    from gymnast.verbs.extras import EXTRAS

    if problem := EXTRAS["studio"].problem:
        raise UserError(f"Studio: {problem}")
    from gymnast.studio.serve import serve

    serve(runs_dir, page, host, port, token, not no_browser, click.echo)
