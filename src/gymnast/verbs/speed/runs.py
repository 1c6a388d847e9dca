"""Whole runs beside those of other libraries: from Enter to the end of a short one, and from the start to solved."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.verbs.speed.libraries import Opponent
from gymnast.verbs.speed.process import Bar, our_worker

if TYPE_CHECKING:
    from gymnast.config import RunConfig

SHORT_RUN = 5_120  # env steps
SHORT_RUN_SECONDS = 5.0  # that it takes, about
LOOK = 0.005  # seconds between two looks at a file that is to appear
SOLVE_EPISODES = 20
SOLVE_EVERY = 5_000  # env steps
PROBE = 2.0  # seconds to find a rival's best thread setting
SAME_WORK = ("eval.every=0", "stop.on_solved=false")  # no other library's script does more


def measure_startup(
    name: str,
    target: str,
    overrides: Sequence[str],
    config: RunConfig,
    rivals: Sequence[Opponent],
    rounds: int,
    bar: Bar,
) -> dict[str, Any]:
    """Wall time from the start of a process to its first update and to its end, in turns; the best of each."""
    steps = max(SHORT_RUN, config.rollout_steps)
    command = [sys.executable, "-m", "gymnast", "train", target, "--steps", str(steps), "--quiet"]
    for setting in (*overrides, *SAME_WORK):
        command += ["--set", setting]
    starts: dict[tuple[str, int | None], list[tuple[float, float]]] = {}
    defaults: dict[str, int] = {}
    bar.plan(SHORT_RUN_SECONDS * rounds * (1 + 2 * len(rivals)))
    for turn in range(rounds):
        bar.step(f"start {turn + 1} of {rounds}: gymnast")
        starts.setdefault(("gymnast", config.train.threads), []).append(_our_start(command))
        bar.done(SHORT_RUN_SECONDS)
        for rival in rivals:
            for threads in (None, 1):
                if threads != defaults.get(rival.name):
                    bar.step(f"start {turn + 1} of {rounds}: {rival.name}, threads {threads or 'default'}")
                    took, defaults[rival.name] = _rival_start(rival, threads, steps)
                    starts.setdefault((rival.name, threads), []).append(took)
                bar.done(SHORT_RUN_SECONDS)
    rows: list[dict[str, Any]] = [
        {
            "who": who,
            "threads": threads,
            "first_update": min(first for first, _ in took),
            "whole": min(whole for _, whole in took),
            "runs": [whole for _, whole in took],
        }
        for (who, threads), took in starts.items()
    ]
    ours = rows[0]["whole"]
    ratios = {rival.name: ours / min(row["whole"] for row in rows if row["who"] == rival.name) for rival in rivals}
    return {"target": name, "steps": steps, "rows": rows, "share_of": ratios, "command": " ".join(command[1:])}


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
                    time.sleep(LOOK)
            else:
                process.wait()
        whole = time.time() - began
        said = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise UserError(f"{' '.join(command[1:])} failed: {said.strip()}")
    return (whole if math.isnan(first) else first), whole


def _rival_start(rival: Opponent, threads: int | None, steps: int) -> tuple[tuple[float, float], int]:
    """The same of a rival; and how many threads it takes where nobody says."""
    began = time.time()
    with rival.start("once") as worker:
        answer = worker.ask(steps=steps, threads=threads)
        worker.wait()
        return (answer["first_update_at"] - began, time.time() - began), answer["threads"]


def measure_solving(
    config: RunConfig, threshold: float | None, rivals: Sequence[Opponent], seeds: int, bar: Bar
) -> dict[str, Any]:
    """Training time until 20 greedy episodes reach the threshold, looked at every 5,000 steps; over seeds, in turns."""
    if threshold is None:
        raise UserError(f"--solve: no threshold is known for {config.env.id}. Add --set stop.threshold=X.")
    criterion = (
        f"eval.every={SOLVE_EVERY}",
        f"eval.episodes={SOLVE_EPISODES}",
        "eval.policy=greedy",
        "eval.warmup=0",
        "eval.start_level=null",
        "stop.on_solved=true",
        "stop.judge=greedy",
        "stop.watch=eval",
        "stop.plateau=null",
        f"stop.episodes={SOLVE_EPISODES}",  # the verdict only ends the run: what counts is the evaluation before it
    )
    threads = {rival.name: _best_threads(rival, bar) for rival in rivals}
    runs: dict[str, list[dict[str, Any]]] = {who: [] for who in ("gymnast", *(rival.name for rival in rivals))}
    bar.plan(float(seeds * len(runs)))
    for seed in range(seeds):
        bar.step(f"seed {seed}: gymnast")
        job = configs.override(config, [*criterion, f"train.seed={seed}"])
        with our_worker() as worker:
            answer = worker.ask(do="solve", config=job.model_dump(mode="json"), threshold=threshold)
        runs["gymnast"].append({"seed": seed, **answer})
        for rival in rivals:
            bar.done(1.0)
            bar.step(f"seed {seed}: {rival.name}")
            with rival.start("solve") as worker:
                answer = worker.ask(
                    seed=seed,
                    threshold=threshold,
                    episodes=SOLVE_EPISODES,
                    every=SOLVE_EVERY,
                    threads=threads[rival.name],
                )
            runs[rival.name].append({"seed": seed, **answer})
        bar.done(1.0)
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
    ratios = {
        rival.name: rows[rival.name]["median_seconds"] / ours if math.isfinite(ours) else math.nan for rival in rivals
    }
    return {
        "threshold": threshold,
        "episodes": SOLVE_EPISODES,
        "every": SOLVE_EVERY,
        "rows": rows,
        "times_as_fast_as": ratios,
    }


def _best_threads(rival: Opponent, bar: Bar) -> int | None:
    """The setting a rival is fastest with, default (None) or one thread."""
    bar.step(f"{rival.name}: which thread setting is its best")
    with rival.start("windows") as worker:
        if worker.ready()["threads"] == 1:
            return None
        rates: dict[int | None, float] = {}
        for threads in (None, 1, None, 1):
            answer = worker.ask(threads=threads, seconds=PROBE / 2)
            rates[threads] = max(rates.get(threads, 0.0), answer["steps"] / answer["seconds"])
    return max(rates, key=lambda setting: rates[setting])


def _median(values: Sequence[float | None]) -> float:
    """A seed that was never solved took for ever."""
    return float(statistics.median(math.inf if value is None else value for value in values))
