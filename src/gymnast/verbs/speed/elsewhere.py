"""`gymnast speed --on WHERE`: training there compared with training here, by the number of actors.

An actor is a job that trains this config. All actors of a measurement train at the same time, each on its own cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError
from gymnast.core.machine import cores, cpu_model
from gymnast.jobs.launchers import open_launcher
from gymnast.jobs.launchers.ray import RayLauncher
from gymnast.jobs.pool import ENDS, Launcher, run_all
from gymnast.jobs.worker import Job
from gymnast.report.charts.model import Chart, Curve
from gymnast.training.record import versions
from gymnast.verbs.extras import check_picture
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.remote.needs import cores_of, resources_of
from gymnast.verbs.speed.speed import steady
from gymnast.verbs.train import resolve_config

if TYPE_CHECKING:
    from gymnast.config import RunConfig

HERE = "here"
WORK = "gymnast.verbs.speed.worker:go_on_training"


@dataclass(frozen=True)
class Elsewhere:
    """Rates are env steps a second of all actors together."""

    target: str
    on: str
    machine: dict[str, Any]  # this one
    settings: dict[str, Any]
    rows: list[dict[str, Any]]  # where, actors, rate, each (actor's rate), of_linear (share of so many times one there)
    nodes: list[str]  # where the actors of the last row were
    calls: list[dict[str, float]]  # what one call of a process there costs: bytes, seconds
    out: Path | None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "out": None if self.out is None else str(self.out)}

    @property
    def chart(self) -> Chart:
        there = [(float(row["actors"]), row["rate"]) for row in self.rows if row["where"] != HERE]
        first = there[0][1] / there[0][0]
        linear = Curve("linear", [(0.0, 0.0), *((x, x * first) for x, _ in there)])  # so that axes begin at 0
        return Chart("env steps a second", (Curve(self.on, there), linear), unit="actors")


def measure_elsewhere(
    target: str,
    overrides: Sequence[str],
    on: str,
    *,
    seconds: float = 2.0,
    windows: int = 3,
    out: Path | None = None,
    progress: Progress = SILENT,
) -> Elsewhere:
    """`windows` of so many `seconds` for each number of actors, the best one counts."""
    if out is not None:
        check_picture("--out", out)
    config = resolve_config(target, overrides).config
    launcher = open_launcher(on)
    reserved = cores_of(config)
    most = launcher.room(reserved)
    counts = sorted({2**n for n in range(most.bit_length()) if 2**n <= most} | {most})
    progress.plan(len(counts) + 1)
    there = []
    for count in counts:
        progress.step(f"{count} of {most} actors on {on}")
        there.append((on, count, measure(config, launcher, count, reserved, seconds, windows)))
        progress.done()
    size = there[0][2].batch_bytes
    calls = call_costs(launcher, (0, size))
    progress.step("training here")
    sides = [(HERE, 1, measure(config, open_launcher(), 1, reserved, seconds, windows)), *there]
    progress.done()
    one = there[0][2].rate
    rows = [
        {"where": where, "actors": n, "rate": found.rate, "each": found.rate / n, "of_linear": found.rate / (n * one)}
        for where, n, found in sides
    ]
    settings = {"n_envs": config.env.n_envs, "cores": reserved, "seconds": seconds, "windows": windows}
    machine = {"cpu": cpu_model(), "cores": cores(), "versions": versions()}
    found = Elsewhere(target, on, machine, settings, rows, sides[-1][2].nodes, calls, out)
    if out is not None:
        from gymnast.report.charts.figure import save_charts

        save_charts(out, [found.chart], f"{target} on {on}")
    return found


def call_costs(launcher: Launcher, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Of a cluster, which is left afterwards: on this machine it would take part in what is measured next."""
    if not isinstance(launcher, RayLauncher):
        return []
    found = [{"bytes": float(size), "seconds": launcher.call_seconds(size)} for size in sizes]
    launcher.leave()
    return found


@dataclass(frozen=True)
class Together:
    rate: float
    nodes: list[str]
    batch_bytes: int  # of the observations of all envs of an actor


def measure(config: RunConfig, launcher: Launcher, count: int, reserved: int, seconds: float, windows: int) -> Together:
    """That many actors at once. A window begins when all of them have trained in one."""
    arguments = {"config": steady(config).model_dump(mode="json"), "seconds": seconds / 4}
    job = Job(WORK, arguments, cores=reserved, resources=resources_of(config))
    rates: dict[int, list[float]] = {actor: [] for actor in range(count)}
    nodes: dict[int, str] = {}
    size, sums = 0, []
    with closing(run_all(list(rates), count, lambda actor: launcher.run(job))) as events:
        for actor, event in _until(events, time.monotonic() + 600 + 10 * seconds * windows):
            if event.kind == "placed":
                nodes[actor] = event.data["node"]
            elif event.kind in ENDS:
                raise UserError(f"an actor has ended: {event.data.get('why', 'without a word')}")
            elif "batch_bytes" in event.data:
                size = event.data["batch_bytes"]
            elif "steps" in event.data:
                rates[actor].append(event.data["steps"] / event.data["seconds"])
                if all(len(found) > 4 for found in rates.values()):  # four windows of a quarter, after the first
                    sums.append(sum(sum(found[1:]) / len(found[1:]) for found in rates.values()))
                    rates = {actor: found[-1:] for actor, found in rates.items()}
                    if len(sums) == windows:
                        break
    return Together(max(sums), sorted(set(nodes.values())), size)


def _until(events: Any, deadline: float) -> Iterator[Any]:
    for found in events:
        if time.monotonic() > deadline:
            raise UserError("the actors do not train at the same time: the cluster has less room than it says.")
        yield found
