"""Runs over HTTP: the list, one run, its metrics and files. `changes_api.py` is what can be done with it."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gymnast import __version__
from gymnast.alerts.text import evidence_of, patch_text, when
from gymnast.config.render import leaves
from gymnast.core.errors import UserError
from gymnast.core.files import read_text
from gymnast.core.text import printable, setting, words_of
from gymnast.metrics.catalogue import Metric, catalogue
from gymnast.report.files import files_of, videos_of
from gymnast.report.next_steps import next_steps
from gymnast.report.page import PHASES
from gymnast.report.run_facts import RunFacts
from gymnast.report.verdict import judge, meaning, test_lines
from gymnast.runs.references import Run, runs_dir_option
from gymnast.sinks.jsonl import read_lines
from gymnast.studio.answers import Json, NotFound, file_answer, inside
from gymnast.studio.launch import OUTPUT, startable
from gymnast.studio.library import Library, complete_row, sweep_of
from gymnast.studio.series import POINTS, clock_of, columns

LAST_LINES = 200  # of the log
OF_METRIC = ("name", "label", "unit", "low", "high", "warn_low", "warn_high", "better", "style", "precision")
GROUPS = {
    "rollout": "Training episodes",
    "eval": "Evaluation",
    "verdict": "Verdict",
    "train": "Learning",
    "net": "Network",
    "time": "Time",
    "central": "Actors",
}


def routes() -> list[Route]:
    return [
        Route("/api/hello", hello),
        Route("/api/runs", list_of_runs),
        Route("/api/catalogue", subjects),
        Route("/api/run/{ref}", one_run),
        Route("/api/run/{ref}/metrics", metrics),
        Route("/api/run/{ref}/next", what_next),
        Route("/api/run/{ref}/diagnostics", diagnostics),
        Route("/api/run/{ref}/file/{path:path}", file),
    ]


def library_of(request: Request) -> Library:
    found: Library = request.app.state.library
    return found


def hello(request: Request) -> Json:
    return Json({"version": __version__, "runs_dir": library_of(request).runs_dir.resolve().name, "read_only": False})


def list_of_runs(request: Request) -> Response:
    library = library_of(request)
    library.refresh()
    return Response(library.to_json(), media_type=Json.media_type)


def subjects(request: Request) -> Json:
    """All metrics by subject, with what they mean."""
    groups = groupby(sorted(catalogue(), key=lambda one: (_place(one.group), one.order)), lambda one: one.group)
    return Json(
        [{"name": name, "title": GROUPS.get(name, name), "metrics": [_about(m) for m in of]} for name, of in groups]
    )


def _place(group: str) -> int:
    return list(GROUPS).index(group) if group in GROUPS else len(GROUPS)


def _about(metric: Metric) -> dict[str, Any]:
    return {**{name: getattr(metric, name) for name in OF_METRIC}, "emphasis": metric.emphasis, "about": metric.meaning}


def one_run(request: Request) -> Json:
    with library_of(request).reading(request.path_params["ref"]) as facts:
        verdict = judge(facts)
        return Json(
            {
                **complete_row(facts),
                "colour": library_of(request).colour_of(facts.info.id),
                "verdict": asdict(verdict) | {"meaning": meaning(verdict, facts), "test": test_lines(facts.summary)},
                "config_yaml": _read(facts, facts.run.config_path.name),
                "settings": settings_of(facts),
                "preset": facts.preset,
                "alerts": alerts_of(facts),
                "time_budget": [
                    {"phase": phase, "seconds": seconds, "about": PHASES.get(phase, "")}
                    for phase, seconds in facts.time_budget.items()
                ],
                "checkpoints": [
                    {"name": one.name, "step": one.step, "problem": one.problem, "metrics": dict(one.metrics)}
                    for one in facts.checkpoints
                ],
                "videos": [{"path": path, "about": about} for path, about in videos_of(facts)],
                "files": [
                    {"path": path, "about": "the report as text" if path == "report.md" else about}
                    for path, about in files_of(facts)
                    if _there(facts, path)
                ],
                "log": _log(facts),
                "metrics": sorted(facts.latest, key=lambda name: (catalogue().get(name).order, name)),
                "latest": dict(facts.latest),
                "rows": len(facts.rows),
                "versions": facts.info.versions,
                "machine": facts.info.machine,
                "host": facts.info.host,
                "sweep": sweep_of(facts.run.path),
                "command": shlex.join(facts.info.command),
                "resumed_at": facts.info.resumed_at,
                "resumes_at": facts.resumes_at,
                "crash": facts.crash,
                "problems": facts.problems,
            }
        )


def what_next(request: Request) -> Json:
    """Commands to go on with. Apart from the rest, since all other runs are read for it."""
    library = library_of(request)
    run, where = library.find(request.path_params["ref"]), runs_dir_option(library.runs_dir)
    steps = next_steps(RunFacts(run))
    return Json([{**step._asdict(), **_ways(step.command.removesuffix(where), run)} for step in steps])


def _ways(command: str, run: Run) -> dict[str, Any]:
    """What a page offers besides the command: to start it, or the page that does the same."""
    match words_of(command)[1:]:
        case ["runs", "compare", *refs]:
            page: str | None = "/compare?" + urlencode([("ref", ref) for ref in refs])
        case ["video", _]:
            page = f"/play?{urlencode({'ref': run.id})}"
        case _:
            page = None
    return {"page": page, "starts": startable(command) is not None}


def settings_of(facts: RunFacts) -> list[dict[str, Any]]:
    """Every setting with its meaning, and what the preset has where that is something else."""
    if facts.config is None:
        return []
    usual = {found.key: found.a for found in facts.changed or ()}
    return [
        {
            "key": key,
            "value": setting(value),
            "default": setting(usual[key]) if key in usual else None,
            "origin": facts.origin(key),
            "about": text,
        }
        for key, value, text in leaves(facts.config)
    ]


def alerts_of(facts: RunFacts) -> list[dict[str, Any]]:
    return [
        {
            "name": alert.rule,
            "severity": alert.severity,
            "firing": alert.firing,
            "text": alert.message,
            "cause": alert.cause,
            "evidence": evidence_of(alert),
            "metrics": list(alert.evidence),
            "when": when(alert),
            "patch": patch_text(alert),
            "command": alert.command,
        }
        for alert in facts.alerts
    ]


def metrics(request: Request) -> Json:
    """?names=a,b&axis=env_steps: the curves; without names, which metrics the run has."""
    query = request.query_params
    names = [name for name in query.get("names", "").split(",") if name]
    points = _number(query.get("points"), POINTS, 2, 10 * POINTS)
    with library_of(request).reading(request.path_params["ref"]) as facts:
        series = {name: columns(facts.curve(name, clock_of(query.get("axis"))), points) for name in names}
        known = sorted(facts.latest, key=lambda name: (catalogue().get(name).order, name))
        return Json({"axis": query.get("axis", "env_steps"), "rows": len(facts.rows), "names": known, "series": series})


def _number(text: str | None, otherwise: int, low: int, high: int) -> int:
    return min(max(int(text), low), high) if text and re.fullmatch(r"[0-9]{1,9}", text) else otherwise


def diagnostics(request: Request) -> Json:
    """What was inside the network at one moment: ?at= the number of the moment, else the last one."""
    run = library_of(request).find(request.path_params["ref"])
    lines = read_lines(run.diagnostics_path)
    if not lines:
        return Json({"steps": [], "at": None, "data": None})
    last = len(lines) - 1
    at = _number(request.query_params.get("at"), last, 0, last)
    return Json({"steps": [line.get("time/total_timesteps") for line in lines], "at": at, "data": lines[at]})


def file(request: Request) -> Response:
    """A file of a run's folder, and of no other place."""
    asked = request.path_params["path"]
    path = inside(library_of(request).find(request.path_params["ref"]).path, asked)
    if path is None or not path.is_file():
        raise NotFound(f"there is no file {printable(asked)!r} in this run.")
    return file_answer(path)


def _read(facts: RunFacts, name: str) -> str:
    """A file of the run's folder; one that a link leads out of it is as good as none."""
    path = inside(facts.run.path, name)
    try:
        return "" if path is None else read_text(path)
    except UserError as error:
        return str(error)


def _there(facts: RunFacts, path: str) -> bool:
    return (facts.run.path / path).is_file()


def _log(facts: RunFacts) -> list[str]:
    """The last lines of log.txt and, of a run that was started from a page, of what its process printed."""
    lines: list[str] = []
    for name in ("log.txt", OUTPUT):
        if (facts.run.path / name).is_file():
            lines += _read(facts, name).splitlines()[-LAST_LINES:]
    return [printable(line) for line in lines]
