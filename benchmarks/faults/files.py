"""Damages files of runs and gives them to the commands: is there a traceback, a hang, a broken checkpoint?

    .venv/bin/python benchmarks/faults/files.py --count 300

Some short runs of different kinds are trained. Each trial copies one of them next to another run, changes one file of
it by its seed, and calls some of the commands that read it, in forked children with limits of time and memory.
Checkpoints are changed in their bytes (`raw`) and, with a right checksum, in their state, metrics or tensors; the other
files of the folder by mutations, or into something that is no regular file. The other run must still be listed, and a
checkpoint that a command has written must be intact, with weights that are finite. A row of the table is a way of
damage. Exit code 1 if anything was bad.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaign import MEMORY, Answer, Tally, prepare, run

sys.path.append(str(Path(__file__).resolve().parents[2]))
from tests.hostile import SPECIAL, mutated, mutated_checkpoint, mutated_json, put_special

SECONDS = 60.0  # of a command
STEPS = 1024
SMALL = ("env.n_envs=8", "algo.n_steps=32", "eval.episodes=2", "stop.episodes=4", "train.checkpoint_every=512")
RUNS = {  # their target and settings
    "plain": ("CartPole-v1", ("algo.batch_size=64",)),
    "reinforce": ("CartPole-v1:reinforce", ()),
    "lstm": ("CartPole-v1", ("agent.memory=lstm", "algo.batch_size=64")),
    "table": ("FrozenLake-v1", ("algo.batch_size=64",)),
    "numbers": ("Pendulum-v1", ("algo.batch_size=64", "agent.normalize_obs=true", "agent.normalize_reward=true")),
}
FILES = ("run.json", "metrics.jsonl", "alerts.json", "config.yaml", "diagnostics.jsonl", "log.txt", "report.md", "lock")
FILES += (
    "checkpoints/best.json",
    "checkpoints/best.csv",
    "checkpoints/best.safetensors",
    "checkpoints/last.safetensors",
)
Change = Callable[[Path, random.Random], None]


def change_raw(run_path: Path, rng: random.Random) -> None:
    for path in (run_path / "checkpoints").glob("*.safetensors"):
        path.write_bytes(mutated_checkpoint(path.read_bytes(), rng))


def rewrite(run_path: Path, rng: random.Random, part: str) -> None:
    """All checkpoints, in the same way, with a right checksum."""
    from gymnast.runs import checkpoint

    seed = rng.random()
    for path in sorted((run_path / "checkpoints").glob("*.safetensors")):
        own, saved = random.Random(seed), checkpoint.load(path)
        state, metrics, tensors = dict(saved.state), dict(saved.metrics), dict(saved.tensors)
        if part == "state":
            state = mutated_json(state, own)
        elif part == "metrics":
            metrics = mutated_json(metrics, own)
        else:
            change_tensors(tensors, own)
        try:
            checkpoint.save(path, tensors, state, metrics)
        except (AttributeError, TypeError, ValueError, OverflowError):  # nothing that a file could hold
            continue


def change_tensors(tensors: dict[str, Any], rng: random.Random) -> None:
    """Some of them, or all that belong together: missing, of another shape or type, or with other numbers."""
    groups = ("agent/", "learner/optimizer/", "judge/best/", "collector/", "learner/", "")
    names = [name for name in tensors if name.startswith(rng.choice(groups))] or list(tensors)
    names = names if rng.random() < 0.4 else rng.sample(names, min(len(names), rng.randrange(1, 4)))
    change = rng.choice([*CHANGES, None])
    for name in names:
        if change is None:
            del tensors[name]
        else:
            tensors[name] = change(tensors[name])


def filled(one: Any, value: float) -> Any:
    """Of the same shape and type."""
    return (one.double() * 0 + value).to(one.dtype)


CHANGES: tuple[Callable[[Any], Any], ...] = (
    lambda one: one.reshape(-1)[:0],
    lambda one: one.double(),
    lambda one: one.reshape(1, -1),
    lambda one: one.bool(),
    lambda one: filled(one, float("nan")),
    lambda one: filled(one, float("inf")),
    lambda one: filled(one, -1e30),
    lambda one: filled(one, 0.0),
    lambda one: -one if one.is_floating_point() else one,
)


def change_file(run_path: Path, rng: random.Random) -> None:
    path = run_path / rng.choice(FILES)
    raw = path.read_bytes() if path.exists() else b""
    path.write_bytes(mutated(raw or b"2026-01-01 00:00:00 nothing\n", rng))


def change_kind(run_path: Path, rng: random.Random) -> None:
    path = run_path / rng.choice(FILES)
    path.touch()
    put_special(path, rng.choice(SPECIAL))


SORTS: dict[str, Change] = {
    "raw": change_raw,
    "state": lambda path, rng: rewrite(path, rng, "state"),
    "metrics": lambda path, rng: rewrite(path, rng, "metrics"),
    "tensors": lambda path, rng: rewrite(path, rng, "tensors"),
    "file": change_file,
    "special": change_kind,
}


def calls(token: str, target: str, out: Path) -> list[list[str]]:
    last, steps = f"{token}/last", str(STEPS + 256)
    return [
        ["runs", "show", token],
        ["runs", "show", token, "--json"],
        ["report", token],
        ["report", token, "--html", "--out", str(out / "x.html")],
        ["runs", "compare", "@all"],
        ["runs", "plot", "@all"],
        ["runs", "zip", token, "--out", str(out / "x.zip")],
        ["runs", "tag", token, "--add", "seen"],
        ["eval", last, "--episodes", "1"],
        ["eval", f"{token}/best", "--episodes", "1"],
        ["resume", token, "--quiet", "--json"],
        ["resume", last, "--steps", steps, "--quiet", "--json"],
        ["resume", last, "--steps", steps, "--reset-optimizer", "--quiet", "--json"],
        ["video", last, "--seconds", "1", "--out", str(out / "x.mp4")],
        ["train", target, "--init-from", last, "--steps", "256", "--quiet", "--json"],
    ]


def trial(number: int, sort: str, kind: str, given: Path, other: Path, place: Path, tally: Tally) -> None:
    rng, runs = random.Random(f"{sort} {number}"), place / "runs"
    for path in (given, other):
        shutil.copytree(path, runs / path.name)
    SORTS[sort](runs / given.name, rng)
    tally.trial(sort)
    token, where, (target, own) = given.name.partition("-")[0], ["--runs-dir", str(runs)], RUNS[kind]
    words = calls(token, target, place)
    chosen = [["runs", "list"], *rng.sample(words[:8], 2), *rng.sample(words[8:], 2)]
    if sort in ("file", "special"):
        chosen += rng.sample(words[:8], 2)
    before = set(runs.iterdir())
    for one in chosen:
        settings = [word for setting in (*SMALL, *own) for word in ("--set", setting)] if one[0] == "train" else []
        answer = run([*one, *settings, *where], place, SECONDS)
        tally.answer(sort, number, answer)
        check(number, sort, answer, runs, before, given, other, tally)


def check(
    number: int, sort: str, answer: Answer, runs: Path, before: set[Path], given: Path, other: Path, tally: Tally
) -> None:
    """Of a list: that the other run is in it. Of a training that ended well: what it has saved."""
    from gymnast.core.errors import UserError
    from gymnast.runs import checkpoint

    if answer.words[:2] == ["runs", "list"] and other.name.partition("-")[0] not in answer.out:
        tally.found(sort, number, "hidden", "the other run is not listed")
    if answer.code != 0 or answer.words[0] not in ("resume", "train"):
        return
    new = [path for path in runs.iterdir() if path not in before] or [runs / given.name]
    for path in new:
        last = path / "checkpoints" / "last.safetensors"
        if not last.is_file():  # a training that diverges saves none, and says so
            continue
        try:
            weights = checkpoint.load(last).agent
        except UserError as error:
            tally.found(sort, number, "broken", str(error)[:200])
            continue
        if any(one.is_floating_point() and not one.isfinite().all() for one in weights.values()):
            tally.found(sort, number, "not finite", " ".join(answer.words))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="files to damage")
    parser.add_argument("--seed", type=int, default=0, help="other seeds damage them in other ways")
    parser.add_argument("--minutes", type=float, default=1e9, help="no further trial is begun after them")
    parser.add_argument("--only", choices=sorted(SORTS), help="one way of damage")
    args = parser.parse_args()
    os.environ |= {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    until = time.monotonic() + 60 * args.minutes
    prepare()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="files-") as name:
        folder = Path(name)
        trained: list[tuple[str, Path]] = []
        for sort, (target, own) in RUNS.items():
            words = ["train", target, "--steps", str(STEPS), "--quiet", "--runs-dir", str(folder / sort)]
            words += [word for setting in (*SMALL, *own) for word in ("--set", setting)]
            done = run(words, folder, 10 * SECONDS, 2 * MEMORY)
            assert done.code == 0, done.err
            trained.append((sort, next((folder / sort).iterdir())))
        sorts = [args.only] if args.only else list(SORTS)
        for number in range(args.seed, args.seed + args.count):
            if time.monotonic() > until:
                break
            place = folder / str(number)
            place.mkdir()
            kind, given = trained[(number // len(sorts)) % len(trained)]
            _, other = trained[(number // len(sorts) + 1) % len(trained)]
            trial(number, sorts[number % len(sorts)], kind, given, other, place, tally)
            shutil.rmtree(place, ignore_errors=True)
    return tally.print()


if __name__ == "__main__":
    sys.exit(main())
