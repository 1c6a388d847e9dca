"""JSON answers, and mistakes as one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response

from gymnast.core.errors import UserError
from gymnast.core.text import printable
from gymnast.studio.guard import HEADERS
from gymnast.studio.socket import to_json

LARGEST_REQUEST = 1 << 20  # bytes


class Refused(UserError):
    """Not now, or not from this window."""

    status = 409


class NotFound(UserError):
    status = 404


class Unconfirmed(UserError):
    """Not before the user has answered a question; the same request with "trust": true is the answer yes."""

    status = 409

    def __init__(self, message: str, asks: str) -> None:
        super().__init__(message)
        self.asks = asks


NO_SCRIPTS = (
    "default-src 'none'; img-src 'self' data:; media-src 'self' data:; style-src 'unsafe-inline'; "
    "sandbox allow-same-origin"
)
TYPES = {
    ".mp4": "video/mp4",
    ".html": "text/html",
    **dict.fromkeys((".txt", ".md", ".yaml", ".json", ".jsonl", ".csv", ".log"), "text/plain"),
}


def inside(folder: Path, asked: str) -> Path | None:
    """What is there by that name in a folder, and in no other place; None: nothing."""
    try:
        path = (folder.resolve() / asked).resolve()
        return path if path.is_relative_to(folder.resolve()) and path.exists() else None
    except (OSError, ValueError):
        return None


def file_answer(path: Path) -> Response:
    """No script in it is run: a run may come from somebody else."""
    kind = TYPES.get(path.suffix, "application/octet-stream")
    headers = {"content-security-policy": NO_SCRIPTS, "cache-control": "no-cache"}
    return FileResponse(path, media_type=kind, headers=headers)


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content).encode()


async def on_mistake(request: Request, error: Exception) -> Json:
    said = "\n".join(printable(line) for line in str(error).splitlines())
    asks = {"asks": error.asks} if isinstance(error, Unconfirmed) else {}
    return Json({"error": said, **asks}, getattr(error, "status", 400))


async def on_defect(request: Request, error: Exception) -> Json:
    """One line for the page; the server prints the traceback afterwards."""
    said = f"an error in Studio, see the terminal: {type(error).__name__} at {printable(request.url.path)}"
    return Json({"error": said}, 500, HEADERS)


async def body_of(request: Request) -> dict[str, Any]:
    """What a page posted."""
    raw = b""
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > LARGEST_REQUEST:
                raise UserError("the request is too large.")
    except ClientDisconnect:  # nobody hears this; it is no defect of Studio's
        raise UserError("the request has ended in the middle.") from None
    try:
        data = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UserError("the request is not a JSON object.")
    return data


def text_of(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{key}: must be a text.")
    return value.strip()


def texts_of(data: dict[str, Any], key: str) -> list[str]:
    value = data.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UserError(f"{key}: must be a list of texts.")
    return [item.strip() for item in value if item.strip()]
