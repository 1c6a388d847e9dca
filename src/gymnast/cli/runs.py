"""`gymnast runs`: what has been trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import Verbs, app, common, quiet, show, verb
from gymnast.core.errors import UserError


@app.group(cls=Verbs, short_help="List, show, compare, plot, stop, tag, delete, zip and import runs.")
def runs() -> None:
    """Trained runs. REF is @last, @best, @best:ENV, an id or its beginning, a name, or a path."""


@runs.command("list", short_help="List runs, newest first.")
@click.option("--env", help="Only runs of this env.")
@click.option("--algo", help="Only runs of this algorithm or variant.")
@click.option("--status", type=click.Choice(["running", "finished", "interrupted", "killed", "crashed"]))
@click.option("--solved/--not-solved", default=None, help="Only runs that are solved, or that are not.")
@click.option("--tag", "tags", multiple=True, help="Only runs with this tag. Repeatable: runs with all of these tags.")
@click.option("--name", help="Only runs whose name begins with this.")
@click.option("--sweep", metavar="NAME", help="The trainings of this sweep, which are in no other list.")
@click.option("--sort", type=click.Choice(["created", "score", "steps", "time"]), default="created", show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many.")
@common
def runs_list(runs_dir: Path, **which: Any) -> None:
    """List runs, newest first, with the settings that were changed.

    \b
    gymnast runs list --env CartPole-v1 --sort score --limit 10
    gymnast runs list --tag gamma --solved
    gymnast runs list --sweep my-sweep --sort score
    """
    from gymnast.terminal.runs import print_list
    from gymnast.verbs.runs.show import list_all_runs

    found = list_all_runs(runs_dir, **which)
    for warning in found.warnings:
        click.echo(f"gymnast: {warning}", err=True)
    show(found, print_list)


@runs.command("show", short_help="Show one run.")
@click.argument("ref", default="@last")
@verb("runs.show:show_run", "runs:print_run")
def runs_show() -> None:
    """Show one run: state, scores, checkpoints, last row of metrics.

    \b
    gymnast runs show                         the newest run
    gymnast runs show k3x9 --json
    """


group = click.option(
    "--group",
    type=click.Choice(["seed", "none"]),
    default="seed",
    show_default=True,
    help="seed: runs that differ only in the seed form one group.",
)


@runs.command("compare", short_help="Compare runs: which is better, and why.")
@click.argument("refs", nargs=-1, required=True)
@group
@verb("runs.compare:compare_runs", "compare:print_comparison")
def runs_compare() -> None:
    """Compare runs, or groups of seeds: scores, curves, and differences in settings, versions, alerts and history.

    Runs joined by commas are one side; with several runs on both sides differences come with intervals.

    \b
    gymnast runs compare w8v2v wp8k3
    gymnast runs compare w8v2v,wp8k3,xq4zt c7d2m,c9f4k
    gymnast runs compare @all:CartPole-v1 --json
    """


@runs.command("plot", short_help="Plot learning curves.")
@click.argument("refs", nargs=-1, required=True)
@click.option(
    "--metric", "metrics", multiple=True, help="Metric, or the end of its name. Repeatable.  [default: the return]"
)
@click.option(
    "--x",
    type=click.Choice(["steps", "vec_steps", "updates", "seconds"]),
    default="steps",
    show_default=True,
    help="Horizontal axis.",
)
@group
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an image, FILE.png, .svg or .pdf, or the numbers, FILE.csv.",
)
@click.option(
    "--label", "names", multiple=True, help="Name of a curve in the legend. Repeatable: one for each, in order."
)
@click.option("--text", is_flag=True, help="Also print the text chart.")
@verb("runs.plot:plot_runs", "plot:print_plot")
def runs_plot() -> None:
    """Plot learning curves in the terminal, as an image, or as numbers. Several seeds become their interquartile mean
    with its 95 % interval.

    \b
    gymnast runs plot @last
    gymnast runs plot @all:CartPole-v1 --metric ep_rew_mean --x seconds
    gymnast runs plot w8v2v,wp8k3 c7d2m,c9f4k --metric entropy --metric approx_kl --out curves.png
    gymnast runs plot w8v2v,wp8k3 c7d2m,c9f4k --label "gamma 0.9" --label "gamma 0.99" --out curves.csv
    """


@runs.command("delete", short_help="Delete runs.")
@click.argument("refs", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common
def runs_delete(refs: tuple[str, ...], yes: bool, runs_dir: Path) -> None:
    """Delete runs with all their files.

    \b
    gymnast runs delete k3x9 w8v2v
    gymnast runs delete k3x9 --yes
    """
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


@runs.command("stop", short_help="Stop runs that are being trained.")
@click.argument("refs", nargs=-1, required=True)
@common
def runs_stop(refs: tuple[str, ...], runs_dir: Path) -> None:
    """Stop runs as Ctrl-C would: each ends after its current update, with a checkpoint, and can be resumed.

    \b
    gymnast runs stop @last
    """
    from gymnast.terminal.runs import print_stopped
    from gymnast.verbs.runs.change import stop_runs
    from gymnast.verbs.runs.show import find_runs

    show(stop_runs(find_runs(refs, runs_dir)), print_stopped)


@runs.command("follow", short_help="Follow a run that is trained elsewhere.")
@click.argument("ref", default="@last")
@quiet
@common
def runs_follow(ref: str, quiet: bool, runs_dir: Path) -> None:
    """Bring the files of a run that was started with --on, and show it until it ends. Ctrl-C ends this command only.

    \b
    gymnast runs follow @last
    """
    from gymnast.runs.references import resolve
    from gymnast.terminal.summary import print_summary
    from gymnast.verbs.remote.start import follow_run

    show(follow_run(resolve(ref, runs_dir), quiet), print_summary, always=True)


@runs.command("tag", short_help="Add and remove tags of runs.")
@click.argument("refs", nargs=-1, required=True)
@click.option("--add", multiple=True, metavar="WORD", help="Add this tag. Repeatable.")
@click.option("--remove", multiple=True, metavar="WORD", help="Remove this tag. Repeatable.")
@common
def runs_tag(refs: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...], runs_dir: Path) -> None:
    """Add and remove tags, words to find runs by.

    \b
    gymnast runs tag @last --add good --remove draft
    """
    from gymnast.terminal.runs import print_tags
    from gymnast.verbs.runs.change import tag_runs
    from gymnast.verbs.runs.show import find_runs

    show(tag_runs(find_runs(refs, runs_dir), add, remove), print_tags)


@runs.command("zip", short_help="Write a run to a zip file.")
@click.argument("ref", default="@last")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Output file or folder.  [default: the working directory]",
)
@verb("runs.show:zip_ref", "runs:print_zipped")
def runs_zip() -> None:
    """Write the folder of a run to one zip file.

    \b
    gymnast runs zip @best --out best.zip
    """


@runs.command("import", short_help="Import a zipped run.")
@click.argument("path", metavar="FILE.zip", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@verb("runs.show:import_zip", "runs:print_imported")
def runs_import() -> None:
    """Import a run from a file of `gymnast runs zip`: it can then be shown, evaluated, recorded and resumed.

    \b
    gymnast runs import best.zip
    """
