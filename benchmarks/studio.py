"""How quick is Studio, and what does it cost? Measured in a real browser.

    python -m benchmarks.studio list       1,000 runs: seconds until the list can be used; search, sort
    python -m benchmarks.studio idle       1,000 runs, nothing happens: CPU of the server and of the browser
    python -m benchmarks.studio watched    steps a second of a training while a page shows it, and while none does

`list` and `idle` make the 1,000 runs: copies of one real run with other ids, seeds, scores, times and states. `watched`
opens and closes the page of one run again and again and compares the stretches of that same run: a busy moment of the
machine hits both kinds alike. Needs chromium and playwright.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean, median, stdev

from gymnast.runs.references import Run, list_runs
from gymnast.sinks.jsonl import read_metrics
from tests.browser.serving import Window, browser, served, train

RUNS, OPENINGS = 1000, 7
IDLE_SECONDS = 20.0
STRETCHES, STRETCH_SECONDS = 32, 4.0
OPENING_SECONDS = 3.0  # opening a page is not watching it
FIRST = "() => document.querySelector('tbody tr[data-key]')?.dataset.key"
SEEN = "new MutationObserver(() => { if (!window.firstRow && document.querySelector('tbody tr[data-key]')) window.firstRow = performance.now(); }).observe(document, {childList: true, subtree: true})"  # noqa: E501


def make_runs(folder: Path, count: int) -> None:
    """Copies of a real run of 100 rows."""
    rng = random.Random(0)
    pattern = folder.parent / "pattern"
    ref = train(pattern, "CartPole-v1", "--set", "train.total_timesteps=60000", "--set", "stop.on_solved=false")
    data = json.loads((pattern / ref / "run.json").read_text())
    folder.mkdir()
    for index in range(count):
        copy = folder / f"{index:05}-cartpole-v1-ppo-s{index}"
        copy.mkdir()
        for name in ("metrics.jsonl", "alerts.json", "config.yaml", "diagnostics.jsonl"):
            if (pattern / ref / name).exists():
                shutil.copy(pattern / ref / name, copy)
        created = datetime.now(UTC) - timedelta(minutes=7 * index)
        summary = {**data["summary"], "score": rng.uniform(20, 500), "solved": rng.random() < 0.4}
        status = "finished" if rng.random() < 0.9 else rng.choice(["interrupted", "crashed"])
        tags = rng.sample(["baseline", "lr", "wide", "paper"], rng.choice([0, 0, 1, 2]))
        facts = {"status": status, "seed": index, "created": created.isoformat(), "tags": tags, "summary": summary}
        changed = {"algo.learning_rate": rng.choice([1e-3, 3e-4]), "algo.gamma": rng.choice([0.98, 0.99])}
        (copy / "run.json").write_text(json.dumps({**data, **facts, "id": copy.name, "changed": changed}))


def cpu_seconds(pid: int) -> float:
    """Of a process and all that it started."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listed.splitlines())}
    wanted, total = {pid}, 0
    while more := {one for one, parent in parents.items() if parent in wanted} - wanted:
        wanted |= more
    for one in wanted:
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def browser_pid() -> int:
    """Of Playwright's driver, from which all processes of the browser descend."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    children = [line.split(maxsplit=2) for line in listed.splitlines()]
    return next(int(pid) for pid, parent, words in children if int(parent) == os.getpid() and "playwright" in words)


def until(condition: Callable[[], bool]) -> float:
    began = time.perf_counter()
    while not condition():
        time.sleep(0.005)
        assert time.perf_counter() - began < 60
    return time.perf_counter() - began


def show_list(folder: Path) -> None:
    began = time.perf_counter()
    with served(folder) as studio, browser() as chromium, studio.window(chromium) as window:
        page = window.page
        page.wait_for_selector("tbody tr[data-key]")
        print(f"first list: {time.perf_counter() - began:.2f} s after the command, with the start of the browser")
        page.wait_for_timeout(8000)  # the second halves of the rows
        page.add_init_script(SEEN)
        times = []
        for _ in range(OPENINGS):
            page.goto(f"{studio.address}/runs")
            page.wait_for_selector("tbody tr[data-key]")
            times.append(page.evaluate("() => window.firstRow") / 1000)
        print(f"{RUNS} runs, opened {OPENINGS} times: usable after {median(times):.3f} s (worst {max(times):.3f})")
        actions: dict[str, Callable[[], None]] = {
            "search": lambda: page.get_by_label("Search runs").fill("baseline gamma=0.99"),
            "sort by score": lambda: page.get_by_role("button", name="Score").click(),
        }
        for what, action in actions.items():
            before, start = page.evaluate(FIRST), time.perf_counter()
            action()
            while page.evaluate(FIRST) == before:
                pass
            print(f"{what}: {time.perf_counter() - start:.3f} s, with playwright's own time")


def show_idle(folder: Path) -> None:
    with served(folder) as studio, browser() as chromium, studio.window(chromium) as window:
        for path in ("/runs", "/runs/@last"):
            window.open(path)
            window.page.wait_for_timeout(15_000)  # second halves of the rows
            server, pages = studio.process.pid, browser_pid()
            before = cpu_seconds(server), cpu_seconds(pages)
            time.sleep(IDLE_SECONDS)
            after = cpu_seconds(server), cpu_seconds(pages)
            shares = [100 * (b - a) / IDLE_SECONDS for a, b in zip(before, after, strict=True)]
            print(f"{path}, {RUNS} runs, idle: server {shares[0]:.2f} %, browser {shares[1]:.2f} % of a core")


def show_watched(folder: Path) -> None:
    settings = ["--set", "stop.on_solved=false", "--set", "log.every=8192", "--steps", str(10**9), "--quiet"]
    command = [sys.executable, "-m", "gymnast", "train", "CartPole-v1", "--runs-dir", str(folder), *settings]
    with served(folder) as studio, browser() as chromium, subprocess.Popen(command) as process:
        try:
            until(lambda: bool(list_runs(folder)))
            run = Run(list_runs(folder)[0].path)
            until(lambda: len(read_metrics(run.metrics_path)) > 20)
            with studio.window(chromium) as window:
                rates = watch_now_and_then(window, run, studio.process.pid)
        finally:
            process.kill()
    for what, place in (("steps a second", 0), ("steps a second of its own CPU time", 1)):
        on, off = ([rate[place] for is_on, rate in rates if is_on == wanted] for wanted in (True, False))
        pairs = [1 - a / b for a, b in zip(on, off, strict=True)]
        error = stdev(pairs) / len(pairs) ** 0.5
        cost = f"cost {100 * mean(pairs):.2f} %, standard error {100 * error:.2f}"
        print(f"{what}: watched {mean(on):,.0f}, not watched {mean(off):,.0f}; {cost}")


def watch_now_and_then(window: Window, run: Run, server: int) -> list[tuple[bool, tuple[float, float]]]:
    """Steps a second of each stretch, by the clock and by the training's CPU time; with a page and without in turns."""
    rates, spent = [], {True: [0.0, 0.0], False: [0.0, 0.0]}
    processes = (server, browser_pid(), run.read().pid)
    for index in range(STRETCHES):
        is_on = index % 2 == 0
        window.page.goto(f"{window.studio.address}/runs/{run.id}" if is_on else "about:blank")
        window.page.wait_for_timeout(1000 * OPENING_SECONDS)
        first, before = read_metrics(run.metrics_path)[-1], [cpu_seconds(pid) for pid in processes]
        window.page.wait_for_timeout(1000 * STRETCH_SECONDS)
        after, last = [cpu_seconds(pid) for pid in processes], read_metrics(run.metrics_path)[-1]
        for place in (0, 1):
            spent[is_on][place] += (after[place] - before[place]) / STRETCH_SECONDS / (STRETCHES / 2)
        steps, seconds = (last[name] - first[name] for name in ("time/total_timesteps", "time/elapsed"))
        rates.append((is_on, (steps / seconds, steps / (after[2] - before[2]))))
    for is_on, name in ((True, "watched"), (False, "not watched")):
        print(f"{name}: server {100 * spent[is_on][0]:.1f} %, browser {100 * spent[is_on][1]:.1f} % of a core")
    return rates


def main(what: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder) / "runs"
        if what in ("list", "idle"):
            make_runs(runs_dir, RUNS)
        {"list": show_list, "idle": show_idle, "watched": show_watched}[what](runs_dir)


if __name__ == "__main__":
    main(sys.argv[1])
