"""Kills the training process of runs on a Ray cluster, as the kernel does where memory runs out: do all runs end as if
nothing had happened?

    .venv/bin/python benchmarks/faults/ray_kills.py --runs 10 --out kills

Starts a Ray cluster on this machine. Every run is trained twice: here, undisturbed, and on the cluster, where its
training process gets SIGKILL when the run has reached random steps; its node and its actor live on. The rows of
metrics, the result and all tensors of the last checkpoint are compared, number for number, but for the clock's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from node_kills import Nodes, numbers

from gymnast.core.machine import RESERVED
from gymnast.runs.folder import Run
from gymnast.sinks.jsonl import read_metrics
from gymnast.verbs.train import start


def trainings() -> list[int]:
    """The processes that train on the nodes: what actors of this cluster have started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        words, parent = about(place)
        ancestors = [parent]
        while ancestors[-1] > 1:
            ancestors.append(about(Path("/proc", str(ancestors[-1])))[1])
        of_an_actor = about(Path("/proc", str(parent)))[0].startswith("ray::")
        if "jobs/child.py" in words and of_an_actor and os.getpid() in ancestors:
            found.append(int(place.name))
    return found


def about(place: Path) -> tuple[str, int]:
    """A process's command line and its parent's id."""
    try:
        words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return words, int((place / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has just ended
        return "", 0


def kill_at(folder: Path, steps: list[int], over: threading.Event, killed: list[dict[str, int]]) -> None:
    """Each process once, the next one as soon as the run's rows here have reached the next of these steps."""
    for at in steps:
        while not over.wait(0.02):
            files = list(folder.glob("[!.]*/metrics.jsonl"))
            step = read_metrics(files[0])[-1]["time/total_timesteps"] if files and files[0].stat().st_size else 0
            new = [pid for pid in trainings() if pid not in {one["pid"] for one in killed}]
            if step >= at and new:
                os.kill(new[0], signal.SIGKILL)
                killed.append({"asked at": at, "rows here up to": int(step), "pid": new[0]})
                break


def one(seed: int, args: argparse.Namespace, address: str, rng: random.Random) -> dict[str, Any]:
    settings = ["train.checkpoint_seconds=0.5", "stop.on_solved=false", *args.set]
    here = start(args.env, settings, args.out / f"here-{seed}", seed=seed, steps=args.steps, quiet=True)
    folder, killed, over = args.out / f"there-{seed}", list[dict[str, int]](), threading.Event()
    steps = sorted(rng.randrange(int(0.8 * args.steps)) for _ in range(args.kills))
    killer = threading.Thread(target=kill_at, args=(folder, steps, over, killed), daemon=True)
    killer.start()
    began = time.monotonic()
    done = start(args.env, settings, folder, seed=seed, steps=args.steps, quiet=True, on=address)
    over.set()
    killer.join()
    run = Run(folder / done.run)
    a = numbers(args.out / f"here-{seed}" / here.run, here.to_json())
    b = numbers(run.path, done.to_json())
    b["result"] = {name: b["result"].get(name) for name in a["result"]}  # run.json knows the engine as well
    info = run.read()
    facts = {"seed": seed, "killed": killed, "resumed at": info.resumed_at, "status": info.status}
    return facts | {"seconds": round(time.monotonic() - began), "same": {name: a[name] == b[name] for name in a}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=2, help="of each run")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=102_400)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    os.environ[RESERVED] = "1"  # as a node of one core has it: evaluations are then made at once, not in the background
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would leave them no time on a busy machine
    rng, nodes = random.Random(args.seed), Nodes(args.nodes)
    found: list[dict[str, Any]] = []
    try:
        nodes.replace_those_killed()
        for seed in range(1, args.runs + 1):
            found.append(one(seed, args, nodes.cluster.address, rng))
            print(json.dumps(found[-1]), flush=True)
    finally:
        nodes.cluster.shutdown()
    finished = sum(run["status"] == "finished" for run in found)
    equal = sum(all(run["same"].values()) for run in found)
    kills = sum(len(run["killed"]) for run in found)
    print(f"{finished} of {len(found)} runs finish, {equal} with the same numbers as undisturbed ones; {kills} kills")
    sys.exit(equal < len(found))


if __name__ == "__main__":
    main()
