"""Starting a run over HTTP: presets, the same check and the same words as on the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from gymnast.config.files import is_preset, read_preset
from gymnast.config.layers import split_target
from gymnast.core.errors import UserError
from gymnast.core.text import setting
from gymnast.studio.answers import Json, body_of, text_of, texts_of
from gymnast.studio.launch import start_process
from gymnast.studio.runs_api import library_of
from gymnast.verbs.config import explain_config
from gymnast.verbs.envs.show import list_envs

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
        found = await run_in_threadpool(explained, target, overrides)
    except UserError as error:
        return Json({"problems": [_problem(line) for line in str(error).splitlines()], "explained": []})
    rows = [{**row, "value": setting(row["value"]), "about": row["meaning"]} for row in found]
    return Json({"problems": [], "explained": rows})


def explained(target: str, overrides: list[str]) -> list[dict[str, Any]]:
    """In this process where a preset says it all. Another env is made to see its spaces: in a process of its own."""
    if is_preset(split_target(target)[0]):
        rows: list[dict[str, Any]] = explain_config(target, None, overrides).to_json()["settings"]
        return rows
    words = [word for text in overrides for word in ("--set", text)]
    command = [sys.executable, "-m", "gymnast", "config", "explain", "--json", *words, "--", target]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
        data = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise UserError(f"{target}: it was not made within {CHECK_SECONDS:.0f} seconds.") from None
    except (ValueError, IndexError):
        raise UserError(f"{target}: its env cannot be made. {(done.stderr.splitlines() or [''])[-1]}") from None
    if "error" in data:
        raise UserError(data["error"])
    return list(data["settings"])


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
