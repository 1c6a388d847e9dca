"""Sweeps over HTTP: the list, and the report of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from gymnast.core.errors import UserError
from gymnast.core.files import read_json, read_text
from gymnast.core.text import printable
from gymnast.runs.lock import RunLock
from gymnast.studio.answers import Json, NotFound
from gymnast.studio.runs_api import NO_SCRIPTS, library_of


def routes() -> list[Route]:
    return [Route("/api/sweeps", list_of_sweeps), Route("/api/sweep/{name}/report", report)]


def list_of_sweeps(request: Request) -> Json:
    """Newest first."""
    folders = [path.parent for path in (library_of(request).runs_dir / "sweeps").glob("*/sweep.json")]
    return Json([about(folder) for folder in sorted(folders, key=lambda path: -path.stat().st_mtime)])


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


def report(request: Request) -> Response:
    """No script in it is run, as in a run's files."""
    name, sweeps = request.path_params["name"], library_of(request).runs_dir / "sweeps"
    path = next((path for path in sweeps.glob("*/report.html") if path.parent.name == name), None)
    if path is None:
        raise NotFound(f"there is no report of a sweep {printable(name)!r} yet.")
    headers = {"content-security-policy": NO_SCRIPTS, "cache-control": "no-cache"}
    return FileResponse(path, media_type="text/html", headers=headers)
