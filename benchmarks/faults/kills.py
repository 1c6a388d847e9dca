"""Kills many trainings at random moments and resumes them: is anything lost, broken, or different?

    .venv/bin/python benchmarks/faults/kills.py --count 300

Each sort of run is trained once undisturbed. Then the same run is started again and again, and disturbed after a random
time: by kill -9, SIGTERM, SIGHUP or Ctrl-C, to its process or to all of its processes, sometimes a second time while it
is resumed. Afterwards `runs list` must answer, no process may be left, every checkpoint must be intact, and `resume`
must bring the run to its end: to the same weights, optimizer, rows and summary as those of the undisturbed run, except
times. A row of the table is a sort of run; a trial is one run. Exit code 1 if anything was bad.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign import Answer, Child, Tally, prepare, run

SECONDS = 120.0  # of a training
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
TIMES = ("time/elapsed", "time/fps", "time/updates_per_second", "time/share/", "eval/seconds", "central/")
CLOCKS = ("seconds", "fps")
SMALL = {
    "train.seed": 1,
    "train.checkpoint_every": 1024,
    "train.checkpoint_seconds": 0.05,
    "env.n_envs": 8,
    "algo.n_steps": 32,
    "eval.every": 1024,
    "eval.episodes": 2,
    "eval.background": False,
    "stop.episodes": 4,
    "stop.on_solved": False,
}
STAGED = """
env: {id: CartPole-v1, engine: sync}
stages:
  short: {env: {max_episode_steps: 20}, advance: {steps: 2048}}
  full: {}
"""
SORTS: dict[str, tuple[str, int, dict[str, Any]]] = {  # what is trained, env steps, settings of its own
    "plain": ("CartPole-v1", 8192, {}),
    "a2c": ("CartPole-v1:a2c", 8192, {}),
    "reinforce": ("CartPole-v1:reinforce", 8192, {}),
    "lstm": ("CartPole-v1", 4096, {"agent.memory": "lstm", "algo.batch_size": 64}),
    "process": ("CartPole-v1", 4096, {"env.engine": "process", "algo.batch_size": 64}),
    "background": ("CartPole-v1", 8192, {"eval.background": True}),
    "table": ("FrozenLake-v1", 4096, {"algo.batch_size": 64}),
    "numbers": ("Pendulum-v1", 4096, {"env.engine": "sync", "algo.batch_size": 64}),
    "stages": ("staged.yaml", 4096, {}),
    "central": ("CartPole-v1", 4096, {"train.layout": "central", "algo.batch_size": 64}),
    "video": ("CartPole-v1", 1024, {"log.video": "best", "env.max_episode_steps": 20}),
    "solved": ("CartPole-v1", 8192, {"stop.on_solved": True, "stop.threshold": 5, "stop.target": None}),
}


@dataclass(frozen=True)
class Outcome:
    """What a run has come to."""

    tensors: dict[str, Any]
    rows: list[dict[str, float]]
    summary: dict[str, Any]


def setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def words_of(sort: str, runs: Path) -> list[str]:
    target, steps, own = SORTS[sort]
    pairs = (f"{key}={setting(value)}" for key, value in {**SMALL, **own}.items())
    settings = [word for pair in pairs for word in ("--set", pair)]
    return ["train", target, "--steps", str(steps), "--quiet", "--json", "--runs-dir", str(runs), *settings]


def outcome_of(folder: Path) -> Outcome:
    from gymnast.runs import checkpoint
    from gymnast.runs.references import Run
    from gymnast.sinks.jsonl import read_metrics

    found = Run(folder)
    rows = [
        {name: value for name, value in row.items() if not name.startswith(TIMES)}
        for row in read_metrics(found.metrics_path)
    ]
    tensors = checkpoint.load(found.checkpoint_path("last")).tensors
    summary = {name: value for name, value in found.read().summary.items() if name not in CLOCKS}
    return Outcome(dict(tensors), rows, summary)


def difference(found: Outcome, expected: Outcome) -> str:
    """The first thing that is not the same; nothing if all is."""
    import torch

    for name in sorted(found.tensors.keys() ^ expected.tensors.keys()):
        return f"tensor {name} is in one of them only"
    for name, tensor in expected.tensors.items():
        if not torch.equal(found.tensors[name].nan_to_num(7), tensor.nan_to_num(7)):
            return f"tensor {name}"
    if len(found.rows) != len(expected.rows):
        return f"{len(found.rows)} rows instead of {len(expected.rows)}"
    for mine, theirs in zip(found.rows, expected.rows, strict=True):
        for name in sorted(mine.keys() | theirs.keys()):
            a, b = mine.get(name), theirs.get(name)
            if a != b and (a is None or b is None or a == a or b == b):  # NaN is not equal to itself
                return f"{name} at {theirs['time/total_timesteps']:.0f}: {a} instead of {b}"
    for name in sorted(found.summary.keys() | expected.summary.keys()):
        if found.summary.get(name) != expected.summary.get(name):
            return f"summary {name}: {found.summary.get(name)} instead of {expected.summary.get(name)}"
    return ""


class Trial:
    """One run, from its start to its end, with disturbances on the way."""

    def __init__(self, number: int, sort: str, place: Path, usual: float, tally: Tally) -> None:
        self.number, self.sort, self.place, self.usual, self.tally = number, sort, place, usual, tally
        self.rng = random.Random(f"{sort} {number}")
        self.runs = place / "runs"
        self.stopped = False  # by a signal that asks for an end: it does without its videos

    def bad(self, kind: str, said: str) -> None:
        self.tally.found(self.sort, self.number, kind, said)

    def disturb(self, words: list[str]) -> Answer:
        """The command, with a signal at a random moment of it."""
        number, group = self.rng.choice(SIGNALS), self.rng.random() < 0.3
        child = Child(words, self.place)
        until = time.monotonic() + self.rng.random() * self.usual
        while time.monotonic() < until and not child.poll():
            time.sleep(0.001)
        child.kill(number, group=group)
        self.stopped |= number != signal.SIGKILL
        answer = child.wait(SECONDS)
        killed = answer.code == -signal.SIGKILL and number == signal.SIGKILL
        if not killed:  # it is not its own fault
            self.tally.answer(self.sort, self.number, answer)
            if answer.code not in (0, 130):
                self.bad("exit code", f"{answer.code} after {signal.Signals(number).name}: {answer.err[-200:]!r}")
        if child.orphans():
            self.bad("orphan", f"something went on after {signal.Signals(number).name}")
        return answer

    def run(self, expected: Outcome) -> str:
        """What has come of it, in a word."""
        from gymnast.runs import checkpoint

        self.tally.trial(self.sort)
        words = words_of(self.sort, self.runs)
        for _ in range(2):
            self.disturb(words)
            listed = run(["runs", "list", "--runs-dir", str(self.runs), "--json"], self.place)
            self.tally.answer(self.sort, self.number, listed)
            known = json.loads(listed.out.splitlines()[-1])["runs"] if listed.code == 0 else []
            if listed.code != 0 or any(one["status"] == "damaged" for one in known):
                self.bad("hidden", f"runs list: {listed.err[-200:]!r}")
            if not known:
                return "before there was a run"
            (folder,) = (path for path in self.runs.iterdir() if not path.name.startswith("."))
            for info in checkpoint.list_checkpoints(folder / "checkpoints"):
                if info.problem is not None:
                    self.bad("broken", f"{info.name}: {info.problem}")
            if not (folder / "checkpoints" / "last.safetensors").exists():
                return "before its first checkpoint"
            if known[0]["status"] == "finished":
                break
            words = ["resume", folder.name, "--quiet", "--json", "--runs-dir", str(self.runs)]
            if self.rng.random() < 0.7:  # else it is disturbed a second time
                resumed = run(words, self.place, SECONDS)
                self.tally.answer(self.sort, self.number, resumed)
                if resumed.code != 0:
                    self.bad("lost", f"resume: exit code {resumed.code}: {resumed.err[-300:]!r}")
                    return "lost"
                break
        return self.end(folder, expected)

    def end(self, folder: Path, expected: Outcome) -> str:
        from gymnast.runs.references import Run

        if Run(folder).read().status != "finished":
            resumed = run(["resume", folder.name, "--quiet", "--runs-dir", str(self.runs)], self.place, SECONDS)
            self.tally.answer(self.sort, self.number, resumed)
            if resumed.code != 0:
                self.bad("lost", f"resume: exit code {resumed.code}: {resumed.err[-300:]!r}")
                return "lost"
        if what := difference(outcome_of(folder), expected):
            self.bad("differs", what)
            return "differs"
        # killed between its last two files, a run has finished without its page: this writes it
        self.tally.answer(
            self.sort, self.number, run(["report", folder.name, "--runs-dir", str(self.runs)], self.place)
        )
        if not (folder / "report.md").exists():
            self.bad("no report", folder.name)
        if not self.stopped and "log.video" in SORTS[self.sort][2] and not (folder / "videos" / "best.mp4").exists():
            self.bad("no video", folder.name)
        return "equal"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="runs to disturb")
    parser.add_argument("--seed", type=int, default=0, help="other seeds disturb at other moments")
    parser.add_argument("--minutes", type=float, default=1e9, help="no further run is begun after them")
    parser.add_argument("--only", choices=sorted(SORTS), help="one sort of run")
    args = parser.parse_args()
    os.environ |= {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    prepare()
    tally, fates, until = Tally(), Counter[str](), time.monotonic() + 60 * args.minutes
    sorts = [args.only] if args.only else list(SORTS)
    expected: dict[str, tuple[Outcome, float]] = {}
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        for number in range(args.seed, args.seed + args.count):
            if time.monotonic() > until:
                break
            sort, place = sorts[number % len(sorts)], folder / str(number)
            place.mkdir()
            (place / "staged.yaml").write_text(STAGED)
            if sort not in expected:
                first = run(words_of(sort, place / "first"), place, SECONDS)
                assert first.code == 0, f"{sort}: {first.err}"
                (path,) = (place / "first").iterdir()
                expected[sort] = outcome_of(path), first.seconds
            outcome, usual = expected[sort]
            fates[Trial(number, sort, place, usual, tally).run(outcome)] += 1
            shutil.rmtree(place, ignore_errors=True)
    code = tally.print()
    print("; ".join(f"{fate}: {count}" for fate, count in fates.most_common()))
    return code


if __name__ == "__main__":
    sys.exit(main())
