"""`gymnast report`."""

from __future__ import annotations

from pathlib import Path

import click

from gymnast.cli.verbs import app, common, show, trust
from gymnast.core.text import printable


@app.command(short_help="Write a page about a run.")
@click.argument("ref", default="@last")
@click.option("--html", is_flag=True, help="Write HTML with charts, in one file.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file.  [default: in the run's folder]"
)
@click.option("--open", "opens", is_flag=True, help="Open the HTML page in the browser.")
@trust
@common
def report(ref: str, html: bool, out: Path | None, opens: bool, trust: bool, runs_dir: Path) -> None:
    """A page about a run: verdict, what to try next, curves, alerts, where the time went, settings, files.

    Every run writes this page to report.md in its folder when it ends. This command writes it again and prints it.

    \b
    gymnast report                            the newest run, as Markdown
    gymnast report @best --html --open        with charts, in the browser
    gymnast report k3x9 --html --out k3x9.html
    """
    from gymnast.verbs.report import report_run

    result = report_run(ref, runs_dir, html or opens, out, trust)
    show(result, lambda result: click.echo(f"wrote {printable(str(result.path))}" if result.asked else result.text))
    if opens and result.path is not None:
        click.launch(result.path.resolve().as_uri())
