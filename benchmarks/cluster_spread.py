"""A benchmark and a sweep on a Ray cluster of several nodes on this machine: which node does which run?

    .venv/bin/python benchmarks/cluster_spread.py --out spread           spread, nothing is killed
    .venv/bin/python benchmarks/cluster_spread.py --out spread --kill    a node is killed in the middle of each

With --kill both are done twice, undisturbed and with a node that is killed (SIGKILL, all of its processes) and
replaced, and their numbers are compared, all but the clock's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from node_kills import Nodes

TARGET = "CartPole-v1"
OFTEN = "train.checkpoint_seconds=0.2"  # a run of seconds shall have a checkpoint to go on from
Numbers = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=6, help="runs of the benchmark")
    parser.add_argument("--steps", type=int, default=20_480, help="env steps of a full run")
    # with more of them, cells are stopped early by what the others have reached by then: a question of time
    parser.add_argument("--trials", type=int, default=3, help="configs of the sweep")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would leave them no time on a busy machine
    nodes = Nodes(args.nodes)
    failed = False
    try:
        nodes.replace_those_killed()
        for verb in (benchmark, sweep):
            found = {}
            for kill in (False, True) if args.kill else (False,):
                out = args.out / f"{verb.__name__}{'-killed' * kill}"
                found[kill] = verb(nodes, args, out, kill)
            if args.kill:
                same = found[False] == found[True]
                failed |= not same
                print(f"{verb.__name__}: {'the same numbers' if same else 'OTHER NUMBERS'} with a node killed\n")
    finally:
        nodes.cluster.shutdown()
    sys.exit(failed)


def benchmark(nodes: Nodes, args: argparse.Namespace, out: Path, kill: bool) -> Numbers:
    words = ["benchmark", TARGET, "--seeds", str(args.seeds), "--steps", str(args.steps), "--equal-steps"]
    kept = out / "kept"
    run(nodes, [*words, "--set", OFTEN, "--out", str(out), "--runs-dir", str(kept)], kept, "*", kill)
    records = [json.loads(path.read_text()) for path in sorted(out.glob("runs/*/[!.]*.json"))]
    table({f"seed {record['seed']}": record["nodes"] for record in records})
    clock = {"seconds", "solved_seconds", "finished", "nodes", "curve", "run"}
    return {
        record["seed"]: {key: value for key, value in record.items() if key not in clock}
        | {"curve": [point[:2] for point in record["curve"]]}
        for record in records
    }


def sweep(nodes: Nodes, args: argparse.Namespace, out: Path, kill: bool) -> Numbers:
    words = ["sweep", TARGET, "--trials", str(args.trials), "--steps", str(args.steps), "--seeds", "2", "--sampler"]
    folder = out / "sweeps" / "spread"
    words = [*words, "random", "--name", "spread", "--set", OFTEN, "--runs-dir", str(out)]
    run(nodes, words, folder / "runs", "*/*", kill)
    records = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("cells/[!.]*.json"))}
    table({name: record["nodes"] for name, record in records.items()})
    return {
        name: {key: value for key, value in record.items() if key not in ("seconds", "nodes")}
        for name, record in records.items()
    }


def run(nodes: Nodes, words: list[str], folder: Path, pattern: str, kill: bool) -> None:
    """A command on the cluster. With `kill`, a node dies under it as soon as a run of every node has a checkpoint."""
    command = ["gymnast", *words, "--on", nodes.cluster.address]
    print(f"$ {' '.join(command)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", *command])
    while process.poll() is None:
        time.sleep(0.05)
        begun = len(list(folder.glob(f"{pattern}/checkpoints/last.safetensors"))) if kill else 0
        if begun and begun >= len(nodes.cluster.worker_nodes):
            kill = False
            doomed = next(iter(nodes.cluster.worker_nodes)).node_id
            print(f"killed node {doomed[:6]}", flush=True)
            nodes.kill(doomed)
        nodes.replace_those_killed()
    if process.returncode:
        sys.exit(f"it ended with exit code {process.returncode}")


def table(runs: dict[str, list[str]]) -> None:
    """By node: the runs it has trained, or a part of them."""
    print("\n| node | runs | which |\n|---|---|---|")
    for node in sorted({place for places in runs.values() for place in places}):
        mine = list(parts(runs, node))
        print(f"| {node} | {len(mine)} | {', '.join(mine)} |")
    print(flush=True)


def parts(runs: dict[str, list[str]], node: str) -> Iterator[str]:
    for name, places in runs.items():
        if node in places:
            yield name if places[-1] == node else f"{name} (ended on another one)"


if __name__ == "__main__":
    main()
