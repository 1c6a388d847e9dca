"""What can be done with a run over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from gymnast.core.errors import UserError
from gymnast.core.text import printable
from gymnast.report.next_steps import next_steps
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import resolve_checkpoint, runs_dir_option
from gymnast.studio.allowed import confirm_code, confirm_command
from gymnast.studio.answers import Json, body_of, texts_of
from gymnast.studio.launch import start_process, startable
from gymnast.studio.library import Library
from gymnast.studio.runs_api import library_of
from gymnast.verbs.report import report_run
from gymnast.verbs.runs.change import stop_runs, tag_runs
from gymnast.verbs.runs.show import delete_runs

Change = Callable[[Library, str, dict[str, Any]], dict[str, Any]]  # of a run, with what the page posted


def routes() -> list[Route]:
    changes = {
        "stop": stop,
        "resume": resume,
        "tag": tag,
        "delete": delete,
        "fix": fix,
        "report": report,
        "next": go_on,
    }
    return [Route(f"/api/run/{{ref}}/{name}", posted(change), methods=["POST"]) for name, change in changes.items()]


def posted(change: Change) -> Callable[[Request], Awaitable[Json]]:
    async def endpoint(request: Request) -> Json:
        body = await body_of(request)
        return Json(await run_in_threadpool(change, library_of(request), request.path_params["ref"], body))

    return endpoint


def stop(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    return stop_runs([library.find(ref, exact=True)]).to_json()


def resume(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    run = library.find(ref, exact=True)
    _, path = resolve_checkpoint(str(run.path), library.runs_dir, prefer="last")
    confirm_code(path, trust := body.get("trust") is True)
    return {"id": start_process(with_trust(["resume", run.id], trust), library.runs_dir)}


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
    run, trust = library.find(ref, exact=True), body.get("trust") is True
    with library.reading(run.id) as facts:
        command = next((one.command for one in facts.alerts if one.rule == body.get("alert")), None)
    if command is None:
        raise UserError(f"alert: {body.get('alert')!r} advises no other run.")
    words = advised(command)
    confirm_command(run, command, trust)
    return {"id": start_process(with_trust(words, trust), library.runs_dir)}


def go_on(library: Library, ref: str, body: dict[str, Any]) -> dict[str, Any]:
    """Starts what is advised as the next step of a run."""
    run = library.find(ref, exact=True)
    if body.get("command") not in [step.command for step in next_steps(RunFacts(run))]:
        raise UserError(f"command: {printable(str(body.get('command')))} is not a next step of this run (any more).")
    words = startable(body["command"].removesuffix(runs_dir_option(library.runs_dir)))
    if words is None:
        raise UserError(f"{printable(body['command'])} is not a command that Studio starts.")
    confirm_command(run, body["command"], trust := body.get("trust") is True)
    return {"id": start_process(with_trust(words, trust), library.runs_dir)}


def with_trust(words: list[str], trust: bool) -> list[str]:
    """A command with the user's own yes; one in a file cannot say it."""
    return [*words, "--trust"] if trust else words


def advised(command: str) -> list[str]:
    """The words of an advised command behind `gymnast`."""
    words = startable(command)
    if words is None or words[0] != "train":
        raise UserError(f"{printable(command)} is not a command that Studio starts.")
    return words
