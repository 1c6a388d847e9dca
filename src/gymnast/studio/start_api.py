"""Starting a run over HTTP: presets, the same check and the same words as on the command line."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from gymnast.config.files import is_preset, read_preset
from gymnast.config.layers import split_target
from gymnast.core.errors import UserError
from gymnast.core.text import setting
from gymnast.jobs.worker import Event, Job, Worker
from gymnast.studio.answers import Json, body_of, text_of, texts_of
from gymnast.studio.launch import start_process
from gymnast.studio.runs_api import library_of
from gymnast.verbs.config import explain_config
from gymnast.verbs.envs.show import list_envs

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel

CHECK = "gymnast.studio.start_api:explain_in_worker"
CHECK_SECONDS = 120.0  # for an env without a preset: it is imported and made
KEY = re.compile(r"(?:^|: )([a-z_]+(?:\.[\w-]+)+)(?: = .*?)?: ")


def routes() -> list[Route]:
    return [
        Route("/api/presets", presets),
        Route("/api/check", check, methods=["POST"]),
        Route("/api/start", start, methods=["POST"]),
    ]


def presets(request: Request) -> Json:
    """Families, their envs, and the variants of each."""
    families: dict[str, list[dict[str, Any]]] = {}
    for env in list_envs(everything=False).to_json()["envs"]:
        about = read_preset(env["id"]).data["variants"]
        variants = [{"name": name, "about": about[name].get("about")} for name in env["variants"]]
        families.setdefault(env["family"], []).append({**env, "variants": variants})
    return Json([{"family": family, "envs": envs} for family, envs in families.items()])


async def check(request: Request) -> Json:
    """All problems of the settings at once; without one, every setting with its source and meaning."""
    body = await body_of(request)
    target, overrides = text_of(body, "env"), settings_of(body)
    try:
        if is_preset(split_target(target)[0]):
            found = await run_in_threadpool(explained, target, overrides)
        else:
            async with request.app.state.checking:  # one process at a time, however often a page asks
                found = await explained_by_worker(target, overrides)
    except UserError as error:
        return Json({"problems": [_problem(line) for line in str(error).splitlines()], "explained": []})
    rows = [{**row, "value": setting(row["value"]), "about": row["meaning"]} for row in found]
    return Json({"problems": [], "explained": rows})


def explained(target: str, overrides: list[str]) -> list[dict[str, Any]]:
    """Every setting. An env with a preset need not be made for that."""
    rows: list[dict[str, Any]] = explain_config(target, None, overrides).to_json()["settings"]
    return rows


async def explained_by_worker(target: str, overrides: list[str]) -> list[dict[str, Any]]:
    """Another env is made to see its spaces: in a process of its own, which ends with Studio."""
    worker = Worker(Job(CHECK, {"target": target, "overrides": overrides}), name=target)

    def hear() -> Event | None:
        with worker:
            return worker.hear(CHECK_SECONDS)

    try:
        event = await asyncio.to_thread(hear)
    finally:
        worker.kill()  # Studio ends while it waits
    if event is None:
        raise UserError(f"{target}: it was not made within {CHECK_SECONDS:.0f} seconds.")
    if "error" in event.data:
        raise UserError(event.data["error"])
    return list(event.data["settings"])


def explain_in_worker(channel: Channel, target: str, overrides: list[str]) -> dict[str, Any]:
    """All lines of a mistake: each names another problem."""
    try:
        return {"settings": explained(target, overrides)}
    except UserError as error:
        return {"error": str(error)}


def _problem(line: str) -> dict[str, Any]:
    """A line of the command line's answer, and the key in it that the page can point at."""
    found = KEY.search(line)
    return {"key": found.group(1) if found else None, "text": line}


def settings_of(body: dict[str, Any]) -> list[str]:
    """{"set": {key: value}} as after --set; a value is written as in YAML."""
    given = body.get("set") or {}
    if not isinstance(given, dict):
        raise UserError("set: must be an object of keys and values.")
    return [f"{key}={value if isinstance(value, str) else setting(value)}" for key, value in given.items()]


async def start(request: Request) -> Json:
    """{env, set, seed, name, tags} -> {id}. What the command line would refuse is refused with the same lines."""
    body = await body_of(request)
    target, overrides = text_of(body, "env"), settings_of(body)
    if target.startswith("-"):
        raise UserError(f"env: {target!r} is not an env.")
    words = ["train", target, *(word for text in overrides for word in ("--set", text))]
    seed, name = body.get("seed"), body.get("name")
    if seed is not None:
        if not isinstance(seed, int):
            raise UserError(f"seed: {seed!r} is not a whole number.")
        words += ["--seed", str(seed)]
    words += [f"--name={name}"] if name else []
    words += [f"--tag={word}" for word in texts_of(body, "tags")]
    if is_preset(split_target(target)[0]):  # quicker than waiting for a process to say the same
        await run_in_threadpool(explained, target, overrides)
    return Json({"id": await run_in_threadpool(start_process, words, library_of(request).runs_dir)})
