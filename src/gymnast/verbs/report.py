"""`gymnast report`: the page about a run, as Markdown or HTML, printed or written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gymnast.core.errors import UserError
from gymnast.core.files import write_atomic
from gymnast.report.as_json import to_json
from gymnast.report.blocks import markdown
from gymnast.report.html import html_page
from gymnast.report.page import build_page
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import resolve


def report_run(ref: str, runs_dir: Path, html: bool, out: Path | None, show: bool, as_json: bool) -> dict[str, Any]:
    html = html or show or (out is not None and out.suffix in (".html", ".htm"))
    if out is not None and html and out.suffix not in (".html", ".htm"):
        raise UserError(f"--out {out}: an HTML page must end in .html; leave out --html for Markdown.")
    facts = RunFacts(resolve(ref, runs_dir))
    run = facts.run
    path = out
    if path is None and (html or not facts.live):  # the process that trains writes report.md itself
        path = run.path / "report.html" if html else run.report_path
    page = build_page(facts)
    text = markdown(page)
    if path is not None:
        links = "" if out is None else f"{Path(os.path.relpath(run.path, path.parent)).as_posix()}/"
        content = html_page(page, links) if html else markdown(page, links)
        try:
            write_atomic(path, content.encode())
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}. Name another file with --out.") from error
    if not as_json:
        click.echo(f"wrote {path}" if html or out is not None else text)
    if show and path is not None:
        click.launch(path.resolve().as_uri())
    return {**to_json(facts), "path": None if path is None else str(path)}
