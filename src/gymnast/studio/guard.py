"""Who may ask: everything passes here first. A token proves that a request comes from whoever started Studio; Host and
Origin prove that no other web site sends it with this browser's cookie."""

from __future__ import annotations

import secrets
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ANYWHERE = ("0.0.0.0", "[::]", "::")  # listens on every address: any name may be the right one
READING = ("GET", "HEAD")
ONCE_SECONDS = 120.0  # until which the browser must have opened the page
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Refuses with 403 and one line. A page's address with ?token= gives the browser its cookie; so does one with
    ?once=, a single time: other users of this machine can read the command line of a browser that is opened."""

    def __init__(self, app: ASGIApp, token: str, host: str, port: int, once: str | None = None) -> None:
        self._app, self._token = app, token.encode()
        self._once, self._once_until = once, time.monotonic() + ONCE_SECONDS
        self._cookie = f"gymnast-{port}"  # a browser sends the cookies of all ports to each of them
        self._hosts = None if host in ANYWHERE else {f"{name}:{port}" for name in (*LOOPBACK, host, f"[{host}]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        reading = scope["type"] == "http" and scope["method"] in READING
        is_page = not scope["path"].startswith("/api/")
        opens = reading and is_page and self._opens(dict(query).get("once"))
        given = self._token.decode() if opens else dict(query).get("token")
        problem = self._problem(headers, reading, given if reading else None)
        if problem is None and reading and given is not None and is_page:
            self._once = None if opens else self._once
            await self._welcome(scope["path"], query)(scope, receive, send)
        elif problem is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4403, "reason": problem})
        else:
            await PlainTextResponse(problem, 403, HEADERS)(scope, receive, send)

    def _problem(self, headers: Headers, reading: bool, given: str | None) -> str | None:
        host = headers.get("host", "")
        if self._hosts is not None and host not in self._hosts:
            return "Refused: this address is not Studio's."
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        by_header = kind == "Bearer" and self._is_token(bearer)
        if not (by_header or self._is_token(self._cookie_of(headers)) or self._is_token(given)):
            return "Refused: open Studio with the address that `gymnast studio` printed, which has a token."
        origin = headers.get("origin")
        is_ours = (reading or by_header) if origin is None else origin == f"http://{host}"
        return None if is_ours else "Refused: another web site asked."

    def _opens(self, code: str | None) -> bool:
        if self._once is None or code is None or time.monotonic() > self._once_until:
            return False
        return secrets.compare_digest(code.encode(errors="replace"), self._once.encode())

    def _is_token(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(errors="replace"), self._token)

    def _cookie_of(self, headers: Headers) -> str | None:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return None
        return None if found is None else found.value

    def _welcome(self, path: str, query: list[tuple[str, str]]) -> Response:
        """The same page without the token in its address, and the cookie."""
        rest = urlencode([(name, value) for name, value in query if name not in ("token", "once")])
        local = "/" + path.lstrip("/\\")  # "//host" would be another site
        answer = RedirectResponse(f"{local}?{rest}" if rest else local, 303, HEADERS)
        answer.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict", path="/")
        return answer


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
