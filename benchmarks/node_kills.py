"""Kills the node of a run at a random moment, many times: do all runs end as if nothing had happened?

    .venv/bin/python benchmarks/node_kills.py --runs 20

Starts a Ray cluster of several nodes on this machine. Every run is trained twice: here, undisturbed, and on the
cluster, where the node that trains it is killed (SIGKILL, all its processes) when it has reached a random step. The
rows of metrics, the result and all tensors of the last checkpoint are compared, number for number, but for the clock's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from gymnast.core.machine import RESERVED
from gymnast.core.ray_cluster import LOOPBACK
from gymnast.runs import checkpoint
from gymnast.runs.folder import Run
from gymnast.sinks.jsonl import read_metrics
from gymnast.verbs.train import start

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}  # bytes
CLOCK = ("time/elapsed", "time/fps", "time/updates_per_second", "time/share/", "eval/seconds")
ONE_AT_A_TIME = threading.Lock()  # two trainings in one process would share torch's random numbers
TIMES = ("seconds", "fps", "resumed_at", "run")


class Nodes:
    """The cluster, and who is killed when."""

    def __init__(self, count: int) -> None:
        os.environ |= LOOPBACK  # read when Ray is imported
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False})
        self.lock = threading.Lock()
        self.missing: SimpleQueue[str] = SimpleQueue()
        for number in range(count):
            self.missing.put(f"none, number {number}")

    def kill(self, node_id: str) -> None:
        node = next(node for node in self.cluster.worker_nodes if node.node_id.startswith(node_id))
        node.kill_raylet(check_alive=False)  # at once; all processes of the node end with it
        with self.lock:
            self.cluster.remove_node(node, allow_graceful=False)
        self.missing.put(node_id)

    def replace_those_killed(self) -> None:
        """In the main thread: Ray starts a node nowhere else."""
        while not self.missing.empty():
            node_id = self.missing.get()
            try:
                with self.lock:
                    self.cluster.add_node(**NODE)
            except Exception as error:  # a busy machine starts it too slowly for Ray: again, the runs wait for it
                print(f"the node that replaces {node_id} has not started: {error}", flush=True)
                self.missing.put(node_id)
                return


def kill_when(nodes: Nodes, folder: Path, at: int, said: list[str], report: dict[str, Any]) -> None:
    """The node of the run in `folder`, as soon as it has reached that step."""
    while True:
        time.sleep(0.05)
        files = list(folder.glob("[!.]*/metrics.jsonl"))
        step = read_metrics(files[0])[-1]["time/total_timesteps"] if files and files[0].stat().st_size else 0
        places = [found[1] for line in said if (found := re.search(r"\(node (\w+)\)", line))]
        if places and files and step >= at:
            status = Run(files[0].parent).read().status
            report |= {"asked at": at, "rows here up to": int(step), "status": status}
            nodes.kill(places[-1])
            return


def numbers(run: Path, summary: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {key: repr(value) for key, value in row.items() if not key.startswith(CLOCK)}
        for row in read_metrics(run / "metrics.jsonl")
    ]
    saved = checkpoint.load(run / "checkpoints" / "last.safetensors")
    tensors = {name: tensor.numpy().tobytes() for name, tensor in saved.tensors.items() if "clock" not in name}
    return {"rows": rows, "result": {k: v for k, v in summary.items() if k not in TIMES}, "tensors": tensors}


def one(seed: int, args: argparse.Namespace, nodes: Nodes, out: Path, rng: random.Random) -> dict[str, Any]:
    settings = ["train.checkpoint_seconds=0.5", "stop.on_solved=false", *args.set]
    with ONE_AT_A_TIME:
        here = start(args.env, settings, out / f"here-{seed}", seed=seed, steps=args.steps, quiet=True)
    there: dict[str, Any] = {}
    said: list[str] = []
    folder = out / f"there-{seed}"
    at = rng.randrange(int(0.9 * args.steps))
    killer = threading.Thread(target=kill_when, args=(nodes, folder, at, said, there), daemon=True)
    killer.start()
    began = time.monotonic()
    address = nodes.cluster.address
    done = start(args.env, settings, folder, seed=seed, steps=args.steps, quiet=True, on=address, say=said.append)
    seconds = time.monotonic() - began
    killer.join(1.0)
    run = Run(folder / done.run)
    a = numbers(out / f"here-{seed}" / here.run, here.to_json())
    b = numbers(run.path, done.to_json())
    b["result"] = {name: b["result"].get(name) for name in a["result"]}  # run.json knows the engine as well
    same = {name: a[name] == b[name] for name in a}
    return {"seed": seed, **there, "resumed at": run.read().resumed_at, "seconds": round(seconds), "same": same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=20_480)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    os.environ[RESERVED] = "1"  # as a node of one core has it: evaluations are then made at once, not in the background
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would leave them no time on a busy machine
    rng = random.Random(args.seed)
    nodes = Nodes(args.nodes)
    found: list[dict[str, Any]] = []
    try:
        with ThreadPoolExecutor(args.at_once) as pool:
            waiting = {pool.submit(one, seed, args, nodes, args.out, rng) for seed in range(1, args.runs + 1)}
            while waiting:
                nodes.replace_those_killed()
                done, waiting = wait(waiting, timeout=0.05)
                for future in done:
                    if (error := future.exception()) is not None:  # the others go on
                        print(f"{type(error).__name__}: {error}", flush=True)
                        found.append({"same": {"error": False}})
                        continue
                    found.append(future.result())
                    print(json.dumps(found[-1]), flush=True)
    finally:
        nodes.cluster.shutdown()
    good = sum(all(result["same"].values()) for result in found)
    killed = sum(result.get("status") == "running" for result in found)
    print(f"{good} of {len(found)} runs end with the same numbers as undisturbed ones; {killed} lost their node")


if __name__ == "__main__":
    main()
