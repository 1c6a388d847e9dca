"""Brings the files of a run that is trained elsewhere into its folder here, while it is trained.

A process of its own does that, which goes on when the command that started it ends. It holds the run's lock. If it is
killed, the run itself goes on, and `gymnast runs follow` (or `show`) brings what is missing.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import Lost, UserError
from gymnast.core.files import write_json
from gymnast.core.trust import made_on
from gymnast.jobs.launchers import open_detaching
from gymnast.jobs.mirror import Known, apply
from gymnast.jobs.pool import ENDS
from gymnast.jobs.worker import Event, Job, Resources
from gymnast.runs.folder import ENDINGS, STAGE, Run
from gymnast.runs.references import runs_dir_option

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel
    from gymnast.jobs.pool import Detaching, Kept

ABOUT = "run.json"
PRICE = "GYMNAST_CORE_HOUR_PRICE"  # an environment variable, in whatever money
# What a training changes. Name and tags are changed here, by users.
THEIRS = ("status", "pid", "host", "machine", "resumed_at", "versions", "summary")


class Follower:
    """A run's folder here, and the job that writes it elsewhere."""

    def __init__(self, kept: Kept, folder: Path, facts: Mapping[str, Any]) -> None:
        """`facts`: what run.json says here and cannot know there."""
        self._kept, self._folder, self._facts = kept, folder, dict(facts)
        self._known: Known = {}
        self._heard = 0
        self._about: dict[str, Any] | None = None  # run.json as it is there
        self.run = Run(folder)
        self.begun = (folder / ABOUT).exists()

    def update(self) -> list[Event]:
        """Takes what is new. The run's end is noted here when the last file has arrived."""
        events, changed = self._kept.news(self._known, self._heard)
        self._heard += len(events)
        files = [change for change in changed if change.path != ABOUT]
        about = next((change for change in changed if change.path == ABOUT), None)
        place = self._folder if self.begun else self._folder.with_name(f"{STAGE}{self._folder.name}")
        apply(place, files, self._known)
        if about is not None and about.data is not None:
            self._about = json.loads(about.data)
            self._known[ABOUT] = about.stamp
        end = next((event for event in events if event.kind in ENDS), None)
        if self._about is not None and (about is not None or end is not None):
            self._describe(place, self._about, end)
        return events

    def _describe(self, place: Path, about: dict[str, Any], end: Event | None) -> None:
        status = about["status"] if end is not None else "running"
        if end is not None and status not in ENDINGS:  # lost with its last node
            status = "crashed"
        now = {**about, **self._facts, "status": status}
        if end is not None and "core_seconds" in end.data:
            now["summary"] = {**about["summary"], **cost_of(end.data["core_seconds"])}
        if not self.begun:
            place.mkdir(parents=True, exist_ok=True)
            write_json(place / ABOUT, {**now, "made_on": made_on()})
            os.rename(place, self._folder)
            self.begun = True
        self.run.hold()  # until its end
        self.run.update(**{key: now[key] for key in (*THEIRS, *self._facts) if key in now})
        if end is not None:
            self.run.stopping_path.unlink(missing_ok=True)
            self.run.let_go()


def cost_of(core_seconds: float) -> dict[str, float]:
    """What a run has used, and in money where its user has said what a core costs for an hour."""
    used = {"core_seconds": round(core_seconds, 1)}
    try:
        return {**used, "cost": round(core_seconds / 3600 * float(os.environ[PRICE]), 4)}
    except (KeyError, ValueError):
        return used


def hold(
    channel: Channel, on: str, folder: str, facts: dict[str, Any], job: dict[str, Any] | None = None, once: bool = False
) -> dict[str, Any]:
    """In a process of its own: starts a job elsewhere (or finds the run's, without one), says `begun` when its first
    files are here, and brings the others until it ends. `once`: only what is there now."""
    run = Run(Path(folder))
    launcher: Detaching | None = None
    try:
        launcher = open_detaching(on)
        return bring_all(channel, launcher, submitted(launcher, run, job, on), run.path, facts, once)
    except Lost as lost:
        if not (run.path / ABOUT).exists() or (job is not None and launcher is None):
            raise
        # Another cluster may have the same address in another network: the user's word counts where this process has
        # not seen it die
        given_up = lost.gone and (launcher is not None or run.stopping_path.exists())
        raise UserError(f"{str(lost).removesuffix('.')}. {without_cluster(run, given_up)}") from None


def submitted(launcher: Detaching, run: Run, job: dict[str, Any] | None, on: str) -> Kept:
    name = run.path.name
    if job is not None:
        cores = min(job["cores"], launcher.most_cores)
        resources = Resources(**job["resources"])
        return launcher.submit(
            name, Job(job["work"], job["arguments"], cores=cores, resources=resources, folder=run.path)
        )
    kept = launcher.find(name)
    if kept is None:
        nobody_trains(run)
        raise UserError(f"run {name} is not known on {on} any more; what was brought here is intact.")
    return kept


def bring_all(
    channel: Channel, launcher: Detaching, kept: Kept, path: Path, facts: dict[str, Any], once: bool
) -> dict[str, Any]:
    follower = Follower(kept, path, {**facts, "on": launcher.address})
    listen(channel, kept)
    placed = said = False
    while True:
        events = follower.update()
        for event in events:
            if event.kind == "placed":
                placed = True
                channel.event(placed=event.data["node"], why=event.data.get("why"))
            elif event.kind in ENDS:
                kept.forget()
                if event.kind == "error":
                    if follower.begun:
                        follower.run.log(event.data["why"])
                    raise UserError(event.data["why"])
                return {"run": path.name}
        if placed and follower.begun and not said:
            said = True
            channel.event(begun=path.name)
        if follower.begun and follower.run.stopping_path.exists():
            kept.stop()
        if once:
            return {"run": path.name}


def without_cluster(run: Run, given_up: bool) -> str:
    """What becomes of a run whose cluster does not answer. `given_up`: nobody trains it any more."""
    token, where = run.path.name.partition("-")[0], runs_dir_option(run.path.parent)
    if not given_up:
        return f"If that cluster is gone for good: gymnast runs stop {token}{where}."
    run.stopping_path.unlink(missing_ok=True)
    nobody_trains(run)
    if not run.checkpoint_path("last").exists():
        return f"No checkpoint of run {run.path.name} had arrived here."
    return f"Run {run.path.name} can go on from its last checkpoint: gymnast resume {token}{where}."


def nobody_trains(run: Run) -> None:
    run.update(pid=0, host=socket.gethostname(), on=None)


def listen(channel: Channel, kept: Kept) -> None:
    """A message from the command that started this process: stop."""

    def wait() -> None:
        for _ in channel:
            with suppress(UserError):
                kept.stop()

    threading.Thread(target=wait, daemon=True).start()
