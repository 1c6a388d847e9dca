"""`gymnast runs`: what has been trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import Verbs, app, common, show, verb
from gymnast.core.errors import UserError


@app.group(cls=Verbs, short_help="List, show, compare, plot, delete, zip and import runs.")
def runs() -> None:
    """What has been trained. REF is @last, @best, @best:ENV, an id or its beginning, a name, or a path."""


@runs.command("list", short_help="All runs, newest first.")
@click.option("--env", help="Runs of this env.")
@click.option("--algo", help="Of this algorithm or variant.")
@click.option("--status", type=click.Choice(["running", "finished", "interrupted", "killed", "crashed"]))
@click.option("--solved/--not-solved", default=None, help="With this outcome.")
@click.option("--tag", "tags", multiple=True, help="With this tag; repeatable, then with all of them.")
@click.option("--name", help="Whose name begins so.")
@click.option("--sort", type=click.Choice(["created", "score", "steps", "time"]), default="created", show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="So many at most.")
@common
def runs_list(runs_dir: Path, **which: Any) -> None:
    """All runs, newest first, with the settings that were changed.

    \b
    gymnast runs list --env CartPole-v1 --sort score --limit 10
    gymnast runs list --tag gamma --solved
    """
    from gymnast.terminal.runs import print_list
    from gymnast.verbs.runs.show import list_all_runs

    found = list_all_runs(runs_dir, **which)
    for warning in found.warnings:
        click.echo(f"gymnast: {warning}", err=True)
    show(found, print_list)


@runs.command("show", short_help="All about one run.")
@click.argument("ref", default="@last")
@verb("runs.show:show_run", "runs:print_run")
def runs_show() -> None:
    """All about one run: state, scores, checkpoints, last row of metrics."""


group = click.option(
    "--group",
    type=click.Choice(["seed", "none"]),
    default="seed",
    show_default=True,
    help="seed: runs that differ in nothing else count as one.",
)


@runs.command("compare", short_help="Why is one better than another.")
@click.argument("refs", nargs=-1, required=True)
@group
@verb("runs.compare:compare_runs", "compare:print_comparison")
def runs_compare() -> None:
    """Runs, or groups of seeds, side by side: scores, curves, and what differs in settings, versions, alerts, history.

    Runs joined by commas are one side; with several runs on both sides differences come with intervals.

    \b
    gymnast runs compare w8v2v wp8k3
    gymnast runs compare w8v2v,wp8k3,xq4zt c7d2m,c9f4k
    gymnast runs compare @all:CartPole-v1 --json
    """


@runs.command("plot", short_help="Curves of one or several runs.")
@click.argument("refs", nargs=-1, required=True)
@click.option("--metric", "metrics", multiple=True, help="Or the end of its name; repeatable.  [default: the return]")
@click.option(
    "--x",
    type=click.Choice(["steps", "vec_steps", "updates", "seconds"]),
    default="steps",
    show_default=True,
    help="What runs to the right.",
)
@group
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="A picture: FILE.png, .svg or .pdf.")
@click.option("--text", is_flag=True, help="The chart in text as well.")
@verb("runs.plot:plot_runs", "plot:print_plot")
def runs_plot() -> None:
    """Learning curves in the terminal, or as a picture. Several seeds become a mean with its 95 % interval.

    \b
    gymnast runs plot @last
    gymnast runs plot @all:CartPole-v1 --metric ep_rew_mean --x seconds
    gymnast runs plot w8v2v,wp8k3 c7d2m,c9f4k --metric entropy --metric approx_kl --out curves.png
    """


@runs.command("delete", short_help="Remove runs.")
@click.argument("refs", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
def runs_delete(refs: tuple[str, ...], yes: bool, runs_dir: Path) -> None:
    """Remove runs with all their files."""
    from gymnast.terminal.runs import print_deleted
    from gymnast.verbs.runs.show import delete_runs, find_runs

    found = find_runs(refs, runs_dir)
    try:
        agreed = yes or click.confirm(f"Delete {', '.join(run.id for run in found)}?", err=True)
    except click.Abort:  # nobody is there to answer
        agreed = False
        click.echo(err=True)
    if not agreed:
        raise UserError("nothing was deleted. Say --yes to delete without being asked.")
    show(delete_runs(found), print_deleted)


@runs.command("zip", short_help="One file with everything of a run.")
@click.argument("ref", default="@last")
@click.option("--out", type=click.Path(path_type=Path), default=Path(), help="File or folder; default: here.")
@verb("runs.show:zip_ref", "runs:print_zipped")
def runs_zip() -> None:
    """Put a run's folder into one zip file."""


@runs.command("import", short_help="Unpack a zipped run.")
@click.argument("path", metavar="FILE.zip", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@verb("runs.show:import_zip", "runs:print_imported")
def runs_import() -> None:
    """Put a run that `gymnast runs zip` made among the others: to show, evaluate, record or resume it."""
