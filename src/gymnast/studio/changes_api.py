"""What can be done with a run over HTTP."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from gymnast.core.errors import UserError
from gymnast.core.text import printable
from gymnast.studio.answers import Json, body_of, texts_of
from gymnast.studio.launch import start_process
from gymnast.studio.library import Library
from gymnast.studio.runs_api import library_of
from gymnast.verbs.report import report_run
from gymnast.verbs.runs.change import stop_runs, tag_runs
from gymnast.verbs.runs.show import delete_runs

Change = Callable[[Library, str, dict[str, Any]], dict[str, Any]]  # of a run, with what the page posted


def routes() -> list[Route]:
    changes = {"stop": stop, "resume": resume, "tag": tag, "delete": delete, "fix": fix, "report": report}
    return [Route(f"/api/run/{{ref}}/{name}", posted(change), methods=["POST"]) for name, change in changes.items()]


def posted(change: Change) -> Callable[[Request], Awaitable[Json]]:
    async def endpoint(request: Request) -> Json:
        body = await body_of(request)
        return Json(await run_in_threadpool(change, library_of(request), request.path_params["ref"], body))

    return endpoint


def stop(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    return stop_runs([library.find(ref, exact=True)]).to_json()


def resume(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"id": start_process(["resume", library.find(ref, exact=True).id], library.runs_dir)}


def tag(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    return tag_runs([library.find(ref, exact=True)], texts_of(body, "add"), texts_of(body, "remove")).to_json()


def delete(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    return delete_runs([library.find(ref, exact=True)]).to_json()


def report(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    """Writes report.html, as `gymnast report --html` does."""
    report_run(library.find(ref, exact=True).id, library.runs_dir, html=True, out=None)
    return {"path": "report.html"}


def fix(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    """Starts the run that an alert advises."""
    with library.reading(library.find(ref, exact=True).id) as facts:
        command = next((one.command for one in facts.alerts if one.rule == body.get("alert")), None)
    if command is None:
        raise UserError(f"alert: {body.get('alert')!r} advises no other run.")
    return {"id": start_process(advised(command), library.runs_dir)}


def advised(command: str) -> list[str]:
    """The words of an advised command behind `gymnast`. It comes from a file: nothing but train and --set is taken."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    fits = words[:2] == ["gymnast", "train"] and len(words) > 2 and not words[2].startswith("-")
    if not fits or words[3:] != [word for text in words[4::2] for word in ("--set", text)]:
        raise UserError(f"{printable(command)} is not a command that Studio starts.")
    return words[1:]
