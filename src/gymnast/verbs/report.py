"""`gymnast report`: the page about a run, as Markdown or HTML."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.files import write_atomic
from gymnast.core.trust import allow
from gymnast.report.blocks import markdown
from gymnast.report.charts.model import thinned
from gymnast.report.files import files_of, videos_of
from gymnast.report.html import html_page
from gymnast.report.next_steps import next_steps
from gymnast.report.page import build_page
from gymnast.report.run_facts import EVALUATION, RETURN, RunFacts
from gymnast.report.verdict import judge, meaning
from gymnast.runs.references import resolve

POINTS = 100  # of a curve in JSON; a longer one is thinned out
OF_RUN = ("env", "algo", "variant", "seed", "status", "parent", "resumed_at", "versions", "machine", "host", "command")


@dataclass(frozen=True)
class RunReport:
    facts: RunFacts
    text: str  # the page as Markdown
    path: Path | None  # where it was written; None: nowhere, the run is being trained
    asked: bool  # for a file, and not for the text

    def to_json(self) -> dict[str, Any]:
        facts = self.facts
        info, changed, verdict = facts.info, facts.changed, judge(facts)
        curves = {name: facts.curve(name) for name in (RETURN, EVALUATION, *facts.worth_a_look)}
        return {
            "run": info.id,
            **{name: getattr(info, name) for name in OF_RUN},
            **{name: getattr(facts, name) for name in ("env_steps", "seconds", "crash", "preset", "problems")},
            "verdict": asdict(verdict) | {"meaning": meaning(verdict, facts)},
            "next": [step._asdict() for step in next_steps(facts)],
            "curves": {name: thinned(points, POINTS) for name, points in curves.items() if points},
            "metrics": facts.latest,
            "alerts": [alert.to_json() for alert in facts.alerts] if facts.watched else None,
            "seconds_by_phase": facts.time_budget,
            "changed": None if changed is None else [{"key": d.key, "preset": d.a, "run": d.b} for d in changed],
            "files": [{"path": name, "what": what} for name, what in [*files_of(facts), *videos_of(facts)]],
            "path": self.path,
        }


def report_run(ref: str, runs_dir: Path, html: bool, out: Path | None, trust: bool = False) -> RunReport:
    """`trust`: its config is checked with the wrappers that it names, wherever it was made."""
    html = html or (out is not None and out.suffix in (".html", ".htm"))
    if out is not None and html and out.suffix not in (".html", ".htm"):
        raise UserError(f"--out {out}: an HTML page must end in .html; leave out --html for Markdown.")
    run = resolve(ref, runs_dir)
    if trust:
        allow(run.path)
    facts = RunFacts(run)
    path = out
    if path is None and (html or not facts.live):  # the process that trains writes report.md itself
        path = run.path / "report.html" if html else run.report_path
    page = build_page(facts)
    if path is not None:
        links = "" if out is None else f"{Path(os.path.relpath(run.path, path.parent)).as_posix()}/"
        content = html_page(page, links, run.path) if html else markdown(page, links)
        try:
            write_atomic(path, content.encode())
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}. Name another file with --out.") from error
    return RunReport(facts, markdown(page), path, html or out is not None)
