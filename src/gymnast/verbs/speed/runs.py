"""Whole runs, ours and those of other libraries: from Enter to the end of a short one, and from the start to solved."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.jobs.worker import Job, Worker
from gymnast.verbs.progress import Progress
from gymnast.verbs.speed.libraries import Baseline

if TYPE_CHECKING:
    from gymnast.config import RunConfig

SHORT_RUN = 5_120  # env steps
SHORT_RUN_SECONDS = 5.0  # that it takes, about
POLL = 0.005  # seconds between two checks whether a file has appeared
SOLVE_EPISODES = 20
SOLVE_EVERY = 5_000  # env steps
PROBE = 2.0  # seconds to find a library's best thread setting
SAME_WORK = ("eval.every=0", "stop.on_solved=false")  # no other library's script does more


def our_worker() -> Worker:
    """Our own process that is measured."""
    return Worker(Job("gymnast.verbs.speed.worker:measure"), name="gymnast")


@contextmanager
def timed(progress: Progress, what: str, seconds: float) -> Iterator[None]:
    """Around something that takes about so long, which is planned already."""
    progress.step(what)
    yield
    progress.done(seconds)


def measure_startup(
    name: str,
    target: str,
    overrides: Sequence[str],
    config: RunConfig,
    baselines: Sequence[Baseline],
    rounds: int,
    progress: Progress,
) -> dict[str, Any]:
    """Seconds from the start of a process to its first update and to its end, in turns; the best of each."""
    steps = max(SHORT_RUN, config.rollout_steps)
    command = [sys.executable, "-m", "gymnast", "train", target, "--steps", str(steps), "--quiet"]
    for setting in (*overrides, *SAME_WORK):
        command += ["--set", setting]
    starts: dict[tuple[str, int | None], list[tuple[float, float]]] = {}
    defaults: dict[str, int] = {}
    progress.plan(SHORT_RUN_SECONDS * rounds * (1 + 2 * len(baselines)))
    for turn in range(rounds):
        with timed(progress, f"start {turn + 1} of {rounds}: gymnast", SHORT_RUN_SECONDS):
            starts.setdefault(("gymnast", config.train.threads), []).append(_our_start(command))
        for baseline in baselines:
            for threads in (None, 1):
                if threads is None or threads != defaults[baseline.name]:
                    progress.step(f"start {turn + 1} of {rounds}: {baseline.name}, threads {threads or 'default'}")
                    took, defaults[baseline.name] = _their_start(baseline, threads, steps)
                    starts.setdefault((baseline.name, threads), []).append(took)
                progress.done(SHORT_RUN_SECONDS)
    rows: list[dict[str, Any]] = []
    for (who, threads), times in starts.items():
        firsts, ends = zip(*times, strict=True)
        best = {"first_update": min(firsts), "whole": min(ends)}
        rows.append({"who": who, "threads": threads, **best, "runs": list(ends)})
    wholes = {who: min(row["whole"] for row in rows if row["who"] == who) for who, _ in starts}
    return {
        "target": name,
        "steps": steps,
        "rows": rows,
        "share_of": {one.name: wholes["gymnast"] / wholes[one.name] for one in baselines},  # our time over theirs
        "command": " ".join(command[1:]),
    }


def _our_start(command: Sequence[str]) -> tuple[float, float]:
    """Seconds until the first row is on the disk, which follows the first update, and until the command has ended."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        began = time.time()
        process = subprocess.Popen(
            [*command, "--runs-dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        first = math.nan
        while process.poll() is None:
            if math.isnan(first):
                if any(path.stat().st_size for path in runs.glob("*/metrics.jsonl")):
                    first = time.time() - began
                else:
                    time.sleep(POLL)
            else:
                process.wait()
        whole = time.time() - began
        said = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise UserError(f"{' '.join(command[1:])} failed: {said.strip()}")
    return (whole if math.isnan(first) else first), whole


def _their_start(baseline: Baseline, threads: int | None, steps: int) -> tuple[tuple[float, float], int]:
    """The same of another library; and how many threads it takes where nobody says."""
    began = time.time()
    with baseline.start("once") as worker:
        answer = worker.ask(steps=steps, threads=threads)
        worker.wait()
        return (answer["first_update_at"] - began, time.time() - began), answer["threads"]


def measure_solving(
    config: RunConfig, threshold: float | None, baselines: Sequence[Baseline], seeds: int, progress: Progress
) -> dict[str, Any]:
    """Training time until 20 greedy episodes, every 5,000 steps, reach the threshold; over seeds, in turns."""
    if threshold is None:
        raise UserError(f"--solve: no threshold is known for {config.env.id}. Add --set stop.threshold=X.")
    threads = {baseline.name: _best_threads(baseline, progress) for baseline in baselines}
    runs: dict[str, list[dict[str, Any]]] = {who: [] for who in ("gymnast", *threads)}
    progress.plan(float(seeds * len(runs)))
    for seed in range(seeds):
        with timed(progress, f"seed {seed}: gymnast", 1.0):
            runs["gymnast"].append({"seed": seed, **_solve_ours(config, threshold, seed)})
        for baseline in baselines:
            with timed(progress, f"seed {seed}: {baseline.name}", 1.0):
                answer = _solve_theirs(baseline, threshold, seed, threads[baseline.name])
                runs[baseline.name].append({"seed": seed, **answer})
    rows: dict[str, dict[str, Any]] = {
        who: {
            "threads": threads.get(who),
            "median_seconds": _median([run["seconds"] for run in of]),
            "median_steps": _median([run["solved_at"] for run in of]),
            "solved": sum(run["solved_at"] is not None for run in of),
            "runs": of,
        }
        for who, of in runs.items()
    }
    ours = rows["gymnast"]["median_seconds"]
    ratios = {name: rows[name]["median_seconds"] / ours if math.isfinite(ours) else math.nan for name in threads}
    criterion = {"threshold": threshold, "episodes": SOLVE_EPISODES, "every": SOLVE_EVERY}
    return {**criterion, "rows": rows, "times_as_fast_as": ratios}


def _solve_ours(config: RunConfig, threshold: float, seed: int) -> dict[str, Any]:
    criterion = (
        f"train.seed={seed}",
        f"eval.every={SOLVE_EVERY}",
        f"eval.episodes={SOLVE_EPISODES}",
        "eval.policy=greedy",
        "eval.warmup=0",
        "eval.start_level=null",
        "stop.on_solved=false",  # what counts is the evaluation: the worker ends the run
        "stop.plateau=null",
    )
    job = configs.override(config, criterion)
    with our_worker() as worker:
        return worker.ask(do="solve", config=job.model_dump(mode="json"), threshold=threshold)


def _solve_theirs(baseline: Baseline, threshold: float, seed: int, threads: int | None) -> dict[str, Any]:
    asked = {
        "seed": seed,
        "threads": threads,
        "every": SOLVE_EVERY,
        "episodes": SOLVE_EPISODES,
        "threshold": threshold,
        "verdict_episodes": 0,  # the evaluation is the verdict
        "on_solved": True,
        "final": False,
    }
    with Worker(baseline.run("benchmark", asked=asked), name=baseline.name) as worker:
        solved_at, seconds = worker.wait_for("result")["solved_at"] or (None, None)
    return {"solved_at": solved_at, "seconds": seconds}


def _best_threads(baseline: Baseline, progress: Progress) -> int | None:
    """The setting a library is fastest with, default (None) or one thread."""
    progress.step(f"{baseline.name}: which thread setting is its best")
    with baseline.start("windows") as worker:
        if worker.ready()["threads"] == 1:
            return None
        rates: dict[int | None, float] = {}
        for threads in (None, 1, None, 1):
            answer = worker.ask(threads=threads, seconds=PROBE / 2)
            rates[threads] = max(rates.get(threads, 0.0), answer["steps"] / answer["seconds"])
    return max(rates, key=lambda setting: rates[setting])


def _median(values: Sequence[float | None]) -> float:
    """A seed that was never solved counts as infinity."""
    return float(statistics.median(math.inf if value is None else value for value in values))
