"""What `train.layout: central` gains and costs.

    python benchmarks/central.py waiting          # rate by number of actors, with an env that waits 5 ms a step
    python benchmarks/central.py overhead         # against lock step, on this machine alone
    python benchmarks/central.py kills            # an actor killed every 10 s for 2 minutes
    python benchmarks/central.py waiting --where ray

A rate is that of the best window of a run, so that a busy moment of the machine does not decide.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from typing import Any

WAITING = "waiting:benchmark/Waiting-v0"  # waiting.py, next to this file
WINDOW = 2.0  # seconds
QUIET = ["eval.every=0", "stop.on_solved=false", "train.total_timesteps=1_000_000_000", "log.diagnostics=0"]
SMALL = ["algo.n_steps=64", "algo.batch_size=64", "algo.n_epochs=4", "algo.learning_rate=1e-3", "log.every=1"]
PARTS = ("central/env_ms", "central/wait_ms", "central/send_ms", "central/receive_ms", "central/policy_lag_mean")
CASES = {
    "CartPole-v1": ["log.every=1"],
    "ALE/Pong-v5:cnn": ["log.every=1", "algo.n_steps=32", "env.n_envs=8", "algo.batch_size=64"],
}
LAYOUTS = {
    "lockstep, engine auto": ["env.engine=auto"],
    "lockstep, engine process": ["env.engine=process"],
    "central, exact, 2 actors": ["train.layout=central", "train.central.n_actors=2"],
    "central, async, 2 actors": ["train.layout=central", "train.central.n_actors=2", "train.central.mode=async"],
}


def central(n_actors: int, where: str) -> list[str]:
    given = {"mode": "async", "n_actors": n_actors, "where": where}
    return ["train.layout=central", *(f"train.central.{key}={value}" for key, value in given.items())]


def best(rows: list[dict[str, float]]) -> float:
    """Steps per second of the best window."""
    found, first = 0.0, 0
    for last, row in enumerate(rows):
        while first < last and row["time/elapsed"] - rows[first + 1]["time/elapsed"] >= WINDOW:
            first += 1
        seconds = row["time/elapsed"] - rows[first]["time/elapsed"]
        if seconds >= WINDOW:
            found = max(found, (row["time/total_timesteps"] - rows[first]["time/total_timesteps"]) / seconds)
    return found


def built(target: str, settings: list[str], threshold: float | None = None) -> Any:
    """Imports are here because every actor imports this file when it starts, and needs no torch."""
    from gymnast import config as configs
    from gymnast.training.build import build

    return build(configs.load(target, settings).config, threshold)


def measure(target: str, settings: list[str], seconds: float) -> tuple[float, dict[str, float], float]:
    """Its best rate, the last row, and this process's own processor time a step, in milliseconds."""
    from gymnast.training.loop import train

    state = built(target, [*QUIET, *settings, f"stop.seconds={seconds}"])
    rows: list[dict[str, float]] = []
    began = time.process_time()
    try:
        result = train(state, observer=rows.append)
    finally:
        state.close()
    return best(rows[:-1]), rows[-2], 1000 * (time.process_time() - began) / result.env_steps


def waiting(args: argparse.Namespace) -> None:
    found = dict.fromkeys(args.actors, 0.0)
    for _ in range(args.windows):
        for n in args.actors:
            settings = [*SMALL, f"env.n_envs={n}", "agent.hidden=[64,64]", *central(n, args.where)]
            rate, row, cpu = measure(WAITING, settings, args.seconds)
            found[n] = max(found[n], rate)
            parts = ", ".join(f"{name.removeprefix('central/')} {row[name]:.2f}" for name in PARTS)
            print(f"{n} actors: {rate:,.0f} steps/s; {parts}; {cpu:.3f} ms of this process a step", flush=True)
    one = found[args.actors[0]] / args.actors[0]
    for n, rate in found.items():
        print(f"{n:3} actors {rate:8,.0f} steps/s, {rate / one / n:.2f} of linear")


def overhead(args: argparse.Namespace) -> None:
    for target, settings in CASES.items():
        found = dict.fromkeys(LAYOUTS, 0.0)
        for _ in range(args.windows):
            for name, layout in LAYOUTS.items():
                found[name] = max(found[name], measure(target, [*settings, *layout], args.seconds)[0])
        first = next(iter(found.values()))
        for name, rate in found.items():
            print(f"{target}, {name}: {rate:,.0f} steps/s, {rate / first:.2f} of lock step", flush=True)


def kills(args: argparse.Namespace) -> None:
    """Of actors chosen at random, while it trains; then the verdict on fresh episodes of CartPole-v1."""
    settings = [
        "env.n_envs=16", "agent.hidden=[64,64]", "algo.n_steps=128", "algo.batch_size=256", "algo.n_epochs=4",
        "algo.learning_rate=2e-3", "algo.gae_lambda=0.9", "algo.clip_range=0.3", *central(16, args.where),
        "log.diagnostics=0", "eval.env.id=CartPole-v1", "eval.every=10_000", "stop.threshold=475",
        "stop.on_solved=false", "train.total_timesteps=1_000_000_000", f"stop.seconds={args.seconds}",
    ]  # fmt: skip
    from gymnast.training.loop import train

    state = built(WAITING, settings, 475.0)
    actors: Any = state.env
    done, killed, rows = threading.Event(), [], []

    def killer() -> None:
        while not done.wait(10.0):
            actor = random.choice(list(actors._all.processes))
            os.kill(actors._all.processes[actor].pid, signal.SIGKILL)
            killed.append(actor)

    threading.Thread(target=killer, daemon=True).start()
    try:
        result = train(state, observer=rows.append)
    finally:
        done.set()
        state.close()
    trained = [row for row in rows if "rollout/ep_rew_mean" in row]
    print(
        f"{len(killed)} actors killed in {result.seconds:.0f} s, {actors.replaced} replaced; "
        f"{result.env_steps:,} steps, {result.fps:,.0f} steps/s, return {trained[-1]['rollout/ep_rew_mean']:.0f}"
    )
    low, high = result.verdict.interval
    print(f"score {result.verdict.score:.1f}, 95 % interval {low:.1f} to {high:.1f}, on fresh episodes; solved at 475")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["waiting", "overhead", "kills"])
    parser.add_argument("--where", default="local")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    args = parser.parse_args()
    args.seconds = args.seconds or {"waiting": 10.0, "overhead": 8.0, "kills": 120.0}[args.what]
    {"waiting": waiting, "overhead": overhead, "kills": kills}[args.what](args)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
