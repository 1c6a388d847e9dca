"""Sweeps over HTTP: the list, the trainings of one, its files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gymnast.core.errors import UserError
from gymnast.core.files import read_json, read_text
from gymnast.core.text import assignment, printable
from gymnast.report.blocks import Heading, Items, Link, Page
from gymnast.report.html import html_page
from gymnast.runs.lock import RunLock
from gymnast.runs.references import SWEEPS, Run
from gymnast.studio.answers import NO_SCRIPTS, Json, NotFound, file_answer, inside
from gymnast.studio.followed import FollowedRun
from gymnast.studio.library import row_of
from gymnast.studio.runs_api import library_of
from gymnast.verbs.sweep.store import Record

Cell = dict[str, Any]


def routes() -> list[Route]:
    return [
        Route("/api/sweeps", list_of_sweeps),
        Route("/api/sweep/{name}", one_sweep),
        Route("/api/sweep/{name}/file/{path:path}", file),
    ]


def folders(request: Request) -> list[Path]:
    return [path.parent for path in (library_of(request).runs_dir / SWEEPS).glob("*/sweep.json")]


def folder_of(request: Request) -> Path:
    name = request.path_params["name"]
    found = next((folder for folder in folders(request) if folder.name == name), None)
    if found is None:
        raise NotFound(f"there is no sweep {printable(name)!r}.")
    return found


def list_of_sweeps(request: Request) -> Json:
    """Newest first."""
    return Json([about(folder) for folder in sorted(folders(request), key=lambda path: -path.stat().st_mtime)])


def about(folder: Path) -> dict[str, Any]:
    """Without a result where it has none yet, or a file cannot be read."""
    try:
        target = str(read_json(folder / "sweep.json")["target"])
    except (UserError, KeyError, TypeError):
        target = ""
    running = RunLock(folder / "lock").held()
    result = None
    if (folder / "report.html").is_file():
        try:
            result = read_text(folder / "report.md").partition("\n")[0].removeprefix("# ")
        except UserError:
            result = "the report cannot be read"
    return {
        "name": folder.name,
        "target": printable(target),
        "cells": len(list((folder / "cells").glob("[!.]*.json"))),
        "status": "running" if running else "interrupted" if result is None else "finished",
        "result": None if result is None else printable(result),
    }


def one_sweep(request: Request) -> Json:
    """What it is, and its trainings: those under way first, then the best ones."""
    folder = folder_of(request)
    runs = {path.parents[1].name: Run(path.parent) for path in folder.glob("runs/*/[!.]*/run.json")}
    cells = [cell for path in folder.glob("cells/[!.]*.json") if (cell := finished(path, runs)) is not None]
    going = [cell for name, run in runs.items() if (cell := under_way(name, run)) is not None]
    known = {cell["name"] for cell in going}
    ended = sorted((cell for cell in cells if cell["name"] not in known), key=lambda one: -one["score"])
    return Json({**about(folder), "trainings": [*sorted(going, key=lambda one: str(one["name"])), *ended]})


def finished(path: Path, runs: dict[str, Run]) -> Cell | None:
    """From a cell's file; None where it cannot be read."""
    try:
        record = Record.of(**read_json(path))
        score = record.score(record.steps)
    except (UserError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    settings = ", ".join(assignment(key, value) for key, value in record.values.items())
    return {
        "name": path.stem,
        "config": printable(record.config),
        "settings": printable(settings) or "(as it is)",
        "seed": record.seed,
        "status": "stopped early" if record.stopped else "finished",
        "progress": None,
        "score": score if math.isfinite(score) else None,
        "curve": [value for _, value in record.curve],
        "steps": record.steps,
        "seconds": record.seconds,
        "nodes": [printable(node) for node in record.nodes],
        "run": runs[path.stem].id if path.stem in runs else None,
    }


def under_way(name: str, run: Run) -> Cell | None:
    """From the run of a cell that is being trained; None: it is not."""
    if not run.live():
        return None
    try:
        facts = FollowedRun(run)
        row = row_of(facts)
    except (UserError, OSError):
        return None
    config, _, seed = name.rpartition("-s")
    return {
        "name": name,
        "config": printable(config),
        "settings": None,
        "seed": int(seed) if seed.isdecimal() else None,
        "status": "running",
        "progress": row["progress"],
        "score": None,
        "curve": [found["eval/mean_reward"] for found in facts.rows if "eval/mean_reward" in found],
        "steps": row["env_steps"],
        "seconds": row["seconds"],
        "nodes": [],
        "run": run.id,
    }


def file(request: Request) -> Response:
    """A file of a sweep's folder; of a folder in it, what is in there."""
    folder, asked = folder_of(request), request.path_params["path"]
    path = inside(folder, asked)
    if path is None:
        raise NotFound(f"there is no file {printable(asked)!r} in this sweep.")
    return listing(path, asked) if path.is_dir() else file_answer(path)


def listing(folder: Path, asked: str) -> Response:
    """Links, which are relative to the address of the folder."""
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    base = "" if asked.endswith("/") or not asked else f"{folder.name}/"
    page: Page = [Heading(printable(asked.strip("/")), 1), Items(tuple((Link(printable(n), n),) for n in names))]
    return HTMLResponse(html_page(page, base), headers={"content-security-policy": NO_SCRIPTS})
