"""Keeps pages up to date: looks at the folder of the runs while somebody watches, and pushes what has changed."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from gymnast.core.errors import UserError
from gymnast.report.run_facts import points_of
from gymnast.studio.answers import texts_of
from gymnast.studio.library import Library, complete_row
from gymnast.studio.series import clock_of, columns
from gymnast.studio.socket import Client, Hub

EVERY = 0.8  # seconds between two looks while a run is trained: a page is less than a second behind
CALM = 1.5  # and while none is
AT_ONCE = 100  # rows whose second half is read in one look


@dataclass
class _Watched:
    """One run on one page, and how much of it the page has."""

    run: str
    names: list[str]
    clock: str
    rows: int
    generation: int
    row: dict[str, Any]


class Watcher:
    """It sleeps while nobody watches."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lists: dict[Client, int] = {}  # up to which revision each has the list
        self._runs: dict[Client, _Watched] = {}
        self._somebody = asyncio.Event()

    def attach(self, hub: Hub) -> None:
        hub.on("watch_runs", self._watch_runs)
        hub.on("watch_run", self._watch_run)
        hub.on("unwatch", self._unwatch)
        hub.on_leave(self._forget)

    async def follow(self) -> None:
        """Until it is cancelled. What fails is reported; the other pages and the next look go on."""
        await _reported(asyncio.to_thread(self._library.refresh))  # while the browser starts
        while True:
            await self._somebody.wait()
            if self._lists:
                await _reported(self._push_lists())
            for client, watched in list(self._runs.items()):
                await _reported(self._push_run(client, watched))
            training = any(watched.row["status"] == "running" for watched in self._runs.values())
            await asyncio.sleep(EVERY if training or self._library.live else CALM)

    async def _push_lists(self) -> None:
        await asyncio.to_thread(self._library.refresh)
        await asyncio.to_thread(self._library.complete, AT_ONCE)
        for client, revision in list(self._lists.items()):
            rows, removed, now = await asyncio.to_thread(self._library.since, revision)
            if client in self._lists and self._lists[client] == revision:
                self._lists[client] = now
                if rows or removed:
                    client.push({"type": "runs", "changed": rows, "removed": removed})

    async def _push_run(self, client: Client, watched: _Watched) -> None:
        try:
            messages = await asyncio.to_thread(self._news, watched)
        except UserError as error:  # deleted, or its run.json is damaged
            self._runs.pop(client, None)
            messages = [{"type": "gone", "run": watched.run, "error": str(error)}]
        if client in self._runs or messages:
            for message in messages:
                client.push(message)

    def _news(self, watched: _Watched) -> list[dict[str, Any]]:
        with self._library.reading(watched.run) as facts:
            if facts.tail.generation != watched.generation:  # resumed: later rows are forgotten
                watched.generation, watched.rows = facts.tail.generation, len(facts.rows)
                return [{"type": "metrics", "run": watched.run, "reset": True, "series": {}}]
            new, watched.rows = facts.rows[watched.rows :], len(facts.rows)
            changed = new or facts.info.updated != watched.row["updated"]
            row = complete_row(facts) if changed else {**watched.row, "now": facts.now}
            if row["status"] != facts.info.status:  # its process is gone without a word
                row = complete_row(facts)
        found = {name: columns(points_of(new, name, watched.clock)) for name in watched.names}
        series = {name: one for name, one in found.items() if one["x"]}
        messages: list[dict[str, Any]] = [{"type": "metrics", "run": watched.run, "series": series}] if series else []
        if row != watched.row:
            watched.row = row
            messages.append({"type": "run", "row": row})
        return messages

    async def _watch_runs(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        """`revision`: of the list that the page has."""
        revision = message.get("revision")
        self._lists[client] = revision if isinstance(revision, int) else -1
        self._somebody.set()
        return {}

    async def _watch_run(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        """`have`: how many rows the page has seen, by its answer from /metrics; what came since then is pushed."""
        names = texts_of(message, "names")

        def look() -> _Watched:
            with self._library.reading(str(message.get("run") or "")) as facts:
                have = message.get("have")
                rows = have if isinstance(have, int) and 0 <= have <= len(facts.rows) else len(facts.rows)
                clock = clock_of(message.get("axis"))
                return _Watched(facts.info.id, names, clock, rows, facts.tail.generation, complete_row(facts))

        watched = self._runs[client] = await asyncio.to_thread(look)
        self._somebody.set()
        return {"run": watched.run, "row": watched.row}

    async def _unwatch(self, client: Client, message: dict[str, Any]) -> dict[str, Any]:
        """`what`: runs or run; else both."""
        self._forget(client, message.get("what"))
        return {}

    def _forget(self, client: Client, what: str | None = None) -> None:
        if what != "run":
            self._lists.pop(client, None)
        if what != "runs":
            self._runs.pop(client, None)
        if not self._lists and not self._runs:
            self._somebody.clear()


async def _reported(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:
        traceback.print_exc()
