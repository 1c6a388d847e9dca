"""Several jobs at a time, wherever a launcher runs them; their events as they come."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

from gymnast.core.errors import Lost
from gymnast.jobs.mirror import Change, Known
from gymnast.jobs.worker import Event, Job

ENDS = ("result", "error")
LOST = "lost"
T = TypeVar("T", bound=Hashable)


class Events(Protocol):
    """What a job reports, in order. The last event is its `result`, or an `error` whose `why` is one line."""

    def __iter__(self) -> Iterator[Event]: ...

    def close(self) -> None:
        """Ends the job at once, from any thread; iterating then comes to an end."""


class Launcher(Protocol):
    """Starts jobs somewhere: on this machine, on a cluster."""

    def run(self, job: Job) -> Events: ...

    def room(self, cores: int) -> int:
        """How many jobs of so many cores are sensible at the same time."""


class Kept(Protocol):
    """A job that goes on without whoever started it, and its folder, which is elsewhere."""

    def news(self, known: Known, heard: int) -> tuple[list[Event], list[Change]]:
        """The events after the first `heard`, and what has changed in the folder since `known`. The last event comes
        with the last files. Waits a moment where there is nothing new."""

    def stop(self) -> None:
        """As Ctrl-C would: it ends soon, and in order."""

    def forget(self) -> None:
        """Its files are here: nothing of it is needed there any more."""


class Detaching(Launcher, Protocol):
    """A launcher whose jobs can go on without this process."""

    address: str  # what --on finds it by, from another process
    most_cores: int  # that one job can have

    def submit(self, name: str, job: Job) -> Kept: ...

    def find(self, name: str) -> Kept | None:
        """A job by the name it was submitted under; None: it is not known there."""


def run_all(items: Iterable[T], at_once: int, launch: Callable[[T], Events]) -> Generator[tuple[T, Event], None, None]:
    """The events of all of them, each with its item. Closing it ends the jobs that are under way.

    An item is taken when there is room for it: it may depend on what the jobs before it have reported. Lost where no
    job can run there any more.
    """
    waiting, reported = iter(items), SimpleQueue[tuple[T, Event]]()
    running: dict[T, tuple[Events, Thread]] = {}

    def pass_on(item: T, events: Events) -> None:
        last = Event("error", {"why": "it ended without a result"})
        try:
            for event in events:
                if event.kind in ENDS:
                    last = event
                else:
                    reported.put((item, event))
        except Lost as lost:
            last = Event(LOST, {"why": str(lost)})
        except Exception as error:  # whatever a cluster's client raises: the other jobs go on
            last = Event("error", {"why": f"{type(error).__name__}: {error}"})
        reported.put((item, last))

    try:
        while True:
            for item in islice(waiting, at_once - len(running)):
                events = launch(item)
                running[item] = events, Thread(target=pass_on, args=(item, events), daemon=True)
                running[item][1].start()
            if not running:
                return
            item, event = reported.get()
            if event.kind == LOST:
                raise Lost(event.data["why"])
            if event.kind in ENDS:
                running.pop(item)[1].join()
            yield item, event
    finally:
        for events, _ in running.values():
            events.close()
        for _, thread in running.values():
            with suppress(RuntimeError):  # Ctrl-C came before it began: it cannot be waited for
                thread.join()
