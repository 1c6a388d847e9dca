"""Studio's addresses: pages, files of the app, the API, the websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from gymnast.core.errors import UserError
from gymnast.studio import changes_api, compare_api, runs_api, start_api, sweeps_api
from gymnast.studio.answers import NotFound, Refused, on_defect, on_mistake
from gymnast.studio.guard import READING, Guard
from gymnast.studio.library import Library
from gymnast.studio.live import Watcher
from gymnast.studio.session import attach as attach_sessions
from gymnast.studio.socket import NO_CONTROL, Hub

STATIC = Path(__file__).with_name("static")
PAGES = ("/runs", "/runs/{id}", "/compare", "/sweeps", "/sweeps/{id}", "/inspect", "/play", "/start")
CLIENT = "x-studio-client"  # the window that a request comes from
CHECKS = ("/api/check",)  # posted, but nothing is changed by it


def make_app(runs_dir: Path, token: str, host: str, port: int, once: str | None = None) -> Starlette:
    library, hub = Library(runs_dir), Hub()
    watcher = Watcher(library)
    watcher.attach(hub)
    sessions = attach_sessions(hub, runs_dir)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(watcher.follow())
        try:
            yield
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        finally:
            await sessions.close()

    app = Starlette(
        routes=[
            Route("/", lambda request: RedirectResponse("/runs", 303)),
            *(Route(path, page) for path in PAGES),
            Mount("/static", Files(directory=STATIC)),
            Route("/favicon.ico", lambda request: FileResponse(STATIC / "icon.svg")),  # of a report, which names none
            *runs_api.routes(),
            *changes_api.routes(),
            *compare_api.routes(),
            *start_api.routes(),
            *sweeps_api.routes(),
            WebSocketRoute("/ws", hub.serve),
            Route("/{path:path}", nothing),
        ],
        middleware=[
            Middleware(Guard, token=token, host=host, port=port, once=once),
            Middleware(OneControls, hub=hub),
        ],
        exception_handlers={UserError: on_mistake, Exception: on_defect},
        lifespan=lifespan,
    )
    app.state.library, app.state.checking = library, asyncio.Lock()
    return app


def page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


def nothing(request: Request) -> Response:
    """A person gets the page, which says so with a way back; a program gets one line."""
    if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/"):
        return FileResponse(STATIC / "index.html", 404, headers={"cache-control": "no-cache"})
    raise NotFound("there is nothing at this address.")


class Files(StaticFiles):
    """A browser asks each time whether its copy is the newest: a new version of Gymnast shows at once."""

    def file_response(self, *args: object, **options: object) -> Response:
        answer = super().file_response(*args, **options)  # type: ignore[arg-type]
        answer.headers["cache-control"] = "no-cache"
        return answer


class OneControls:
    """A page may change something only from the window that has control; a program with the token always may."""

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app, self._hub = app, hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in READING and scope["path"] not in CHECKS:
            request = Request(scope)
            by_page = "authorization" not in request.headers
            if by_page and not self._hub.in_control(request.headers.get(CLIENT)):
                await (await on_mistake(request, Refused(NO_CONTROL)))(scope, receive, send)
                return
        await self._app(scope, receive, send)
