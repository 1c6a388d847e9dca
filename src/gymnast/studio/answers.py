"""JSON answers, and mistakes as one line."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gymnast.core.errors import UserError
from gymnast.core.files import numbers_to_json
from gymnast.core.text import printable

LARGEST_REQUEST = 1 << 20


class Refused(UserError):
    """Not now, or not from here."""

    status = 409


class NotFound(UserError):
    status = 404


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, default=str, separators=(",", ":")).encode()


def answer(data: Any, status: int = 200) -> Json:
    """`data` may hold numbers that JSON has not; they become strings, as in every file of ours."""
    return Json(numbers_to_json(data), status)


async def on_mistake(request: Request, error: Exception) -> Json:
    status = getattr(error, "status", 400)
    return Json({"error": "\n".join(printable(line) for line in str(error).splitlines())}, status)


async def body_of(request: Request) -> dict[str, Any]:
    """What a page posted."""
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > LARGEST_REQUEST:
            raise UserError("the request is too large.")
    try:
        data = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UserError("the request is not a JSON object.")
    return data
