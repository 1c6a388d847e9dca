"""Actors as processes of this machine: observations and actions are in memory that all share."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.actors.base import ActorDied
from gymnast.envs.engines.workers import Workers
from gymnast.jobs.worker import how_it_ended


class LocalActors(Workers):
    """Once one has died, a spare one is kept ready: others wait for the steps of the next one that dies."""

    deaths = 0

    def start(self, index: int) -> None:
        super().start(index)
        if self.deaths:
            self.add_spare()

    def ask(self, actor: int, command: str, argument: Any = None) -> None:
        if command == "step":
            self.taken[slice(*self.slices[actor])] = argument
            argument = None
        with suppress(OSError):  # it is dead: its end of the pipe is closed, which `answer` finds
            self.connections[actor].send((command, argument))

    def ready(self, actors: Collection[int], seconds: float) -> list[int]:
        found = set(wait([self.connections[actor] for actor in actors], seconds))
        return [actor for actor in actors if self.connections[actor] in found]

    def answer(self, actor: int) -> Any:
        try:
            kind, result = self.connections[actor].recv()
        except (EOFError, OSError):
            raise ActorDied from None
        if kind != "done":
            raise (EnvFailure if kind == "failed" else UserError)(result)
        return result

    def end(self, actor: int, seconds: float) -> str:
        self.deaths += 1
        self.processes[actor].join(seconds)
        return how_it_ended(self.kill(actor))
