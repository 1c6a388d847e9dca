"""Verbs over runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import Verbs, app, common
from gymnast.core.errors import UserError


@app.group(cls=Verbs, short_help="List, show, compare, plot, delete and zip runs.")
def runs() -> None:
    """What has been trained. REF is @last, @best, @best:ENV, an id or its beginning, or a path."""


@runs.command("list", short_help="All runs, newest first.")
@common
def runs_list(runs_dir: Path, as_json: bool) -> Any:
    """All runs, newest first."""
    from gymnast.verbs.runs import list_all_runs

    return list_all_runs(runs_dir, as_json)


@runs.command("show", short_help="All about one run.")
@click.argument("ref", default="@last")
@common
def runs_show(ref: str, runs_dir: Path, as_json: bool) -> Any:
    """All about one run: state, scores, checkpoints, last row of metrics."""
    from gymnast.verbs.runs import show_run

    return show_run(ref, runs_dir, as_json)


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
@common
def runs_compare(refs: tuple[str, ...], group: str, runs_dir: Path, as_json: bool) -> Any:
    """Runs, or groups of seeds, side by side: scores, curves, and what differs in settings, versions, alerts, history.

    Runs joined by commas are one side; with several runs on both sides differences come with intervals.

    \b
    gymnast runs compare w8v2v wp8k3
    gymnast runs compare w8v2v,wp8k3,xq4zt c7d2m,c9f4k
    gymnast runs compare @all:CartPole-v1 --json
    """
    from gymnast.verbs.compare.compare import compare_runs

    return compare_runs(refs, runs_dir, group, as_json)


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
@common
def runs_plot(refs: tuple[str, ...], runs_dir: Path, as_json: bool, **options: Any) -> Any:
    """Learning curves in the terminal, or as a picture. Several seeds become a mean with its 95 % interval.

    \b
    gymnast runs plot @last
    gymnast runs plot @all:CartPole-v1 --metric ep_rew_mean --x seconds
    gymnast runs plot w8v2v,wp8k3 c7d2m,c9f4k --metric entropy --metric approx_kl --out curves.png
    """
    from gymnast.verbs.plot import plot_runs

    return plot_runs(refs, runs_dir, as_json=as_json, **options)


@runs.command("delete", short_help="Remove runs.")
@click.argument("refs", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
def runs_delete(refs: tuple[str, ...], yes: bool, runs_dir: Path, as_json: bool) -> Any:
    """Remove runs with all their files."""
    from gymnast.runs.references import delete_run, resolve

    found = {run.id: run for run in (resolve(ref, runs_dir) for ref in refs)}
    try:
        agreed = yes or click.confirm(f"Delete {', '.join(found)}?", err=True)
    except click.Abort:  # nobody is there to answer
        agreed = False
        click.echo(err=True)
    if not agreed:
        raise UserError("nothing was deleted. Say --yes to delete without being asked.")
    for run in found.values():
        delete_run(run)
        if not as_json:
            click.echo(f"deleted {run.id}")
    return {"deleted": list(found)}


@runs.command("zip", short_help="One file with everything of a run.")
@click.argument("ref", default="@last")
@click.option("--out", type=click.Path(path_type=Path), default=Path(), help="File or folder; default: here.")
@common
def runs_zip(ref: str, out: Path, runs_dir: Path, as_json: bool) -> Any:
    """Put a run's folder into one zip file."""
    from gymnast.runs.references import resolve, zip_run

    path = zip_run(resolve(ref, runs_dir), out)
    if not as_json:
        click.echo(f"wrote {path}")
    return {"zip": str(path)}
