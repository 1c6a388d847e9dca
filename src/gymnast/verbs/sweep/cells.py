"""Cells of a sweep, several at a time, wherever a launcher runs them; hopeless ones are stopped by their steps."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Any

from gymnast import config as configs
from gymnast.jobs.pool import ENDS, Events, Launcher, run_all
from gymnast.jobs.worker import Event, Job
from gymnast.verbs.remote.needs import resources_of
from gymnast.verbs.sweep.plan import Candidate, Plan
from gymnast.verbs.sweep.store import INIT, Curve, Record, Store, area

FEWEST_PEERS = 4  # cells to compare with, before one is called hopeless
FIRST_STOP = 0.25  # of a cell's steps: nothing is stopped before
FLAT = 0.05  # of the range of all evaluations: curves that have changed by less tell nothing yet


@dataclass(frozen=True, eq=False)
class Cell:
    """A config to train with a seed up to so many steps."""

    candidate: Candidate
    seed: int
    steps: int
    may_stop: bool = True

    def job(self, plan: Plan, store: Store) -> Job:
        """It works in the cell's folder, where an earlier part of it may be."""
        seeded = configs.override(self.candidate.config, [f"train.seed={self.seed}"])
        about = {"name": self.candidate.id, "changed": self.candidate.values}
        arguments = {"config": seeded.model_dump(mode="json"), "steps": self.steps, **about}
        folder = store.run_folder(self.candidate, self.seed).resolve()
        if plan.init_from is not None:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(plan.init_from, folder / INIT)
        work, cores = "gymnast.verbs.sweep.worker:run", seeded.train.threads or 1
        return Job(work, arguments, cores=cores, resources=resources_of(seeded), folder=folder)


@dataclass(frozen=True)
class Failure:
    why: str


class Stopper:
    """The median rule, by steps and within a seed: after a quarter of its steps a cell ends whose area so far is
    below the median of the others' at the same step. Not while these are flat: then it may be slow, as they are."""

    def __init__(self) -> None:
        self._curves: dict[tuple[int, int], dict[Cell, Curve]] = {}  # by seed and steps

    def add(self, cell: Cell, curve: Curve) -> bool:
        """Whether the cell is hopeless, by what is known of it and of its peers."""
        peers = self._curves.setdefault((cell.seed, cell.steps), {})
        peers[cell] = curve
        if not cell.may_stop or not curve or not FIRST_STOP * cell.steps <= curve[-1][0] < cell.steps:
            return False
        now = curve[-1][0]
        others = [o for peer, o in peers.items() if peer is not cell and o and o[-1][0] >= now]
        if len(others) < FEWEST_PEERS or self._are_flat(others, now):
            return False
        return area(curve, now) < median(area(other, now) for other in others)

    def _are_flat(self, curves: Sequence[Curve], now: int) -> bool:
        """Whether most of them have hardly changed up to now, next to all that the sweep has seen."""
        seen = [score for peers in self._curves.values() for curve in peers.values() for _, score in curve]
        return median(change(curve, now) for curve in curves) < FLAT * (max(seen) - min(seen))


def change(curve: Curve, now: int) -> float:
    """By how much its mean height in the second half of the steps up to now differs from that in the first half."""
    return 2 * abs(area(curve, now) - area(curve, now / 2))


def run_cells(
    cells: Iterable[Cell], at_once: int, launcher: Launcher, plan: Plan, store: Store
) -> Generator[tuple[Cell, Record | Failure | int], None, None]:
    """How many steps a cell has made, as it goes; and in the end its record, which is kept, or its failure."""
    running: dict[Cell, Events] = {}
    reached: dict[Cell, Event] = {}
    nodes: dict[Cell, list[str]] = {}
    hopeless: set[Cell] = set()
    stopper = Stopper()

    def launch(cell: Cell) -> Events:
        before = store.records.get((cell.candidate.id, cell.seed))
        nodes[cell] = [] if before is None else [*before.nodes]
        running[cell] = launcher.run(cell.job(plan, store))
        return running[cell]

    def pulled() -> Generator[Cell, None, None]:
        """Those that are there already only tell the stopper what they know."""
        for cell in cells:
            if (record := store.find(cell.candidate, cell.seed, cell.steps)) is not None:
                stopper.add(cell, record.curve)
            else:
                yield cell

    with closing(run_all(pulled(), at_once, launch)) as events:
        for cell, event in events:
            if event.kind == "placed":
                if event.data["node"] not in nodes[cell][-1:]:  # its process may have been started again there
                    nodes[cell].append(event.data["node"])
            elif event.kind == "event":
                reached[cell] = event
                if cell not in hopeless and stopper.add(cell, event.data["curve"]):
                    hopeless.add(cell)
                    running[cell].close()
                yield cell, int(event.data["steps"])
            elif event.kind in ENDS and (event.kind == "result" or cell in hopeless):
                story = event.data if event.kind == "result" else reached[cell].data
                if not story["curve"]:
                    yield cell, Failure(f"no episode has ended in {story['steps']:,} steps: it has no score")
                    continue
                stopped = event.kind == "error"
                facts: dict[str, Any] = {
                    "config": cell.candidate.id,
                    "seed": cell.seed,
                    "values": cell.candidate.values,
                }
                record = Record.of(**story, **facts, stopped=stopped, nodes=nodes[cell])
                store.keep(record)
                yield cell, record
            elif event.kind in ENDS:
                yield cell, Failure(event.data["why"])
