"""What do evaluation and videos in the background cost training? Rates with both on and off; is learning the same?

    python benchmarks/background.py [ROUNDS]

On: `eval.background=true`, 20 evaluations a run, a video of every new best agent and five more. Off: neither
evaluations nor videos. The runs take turns and the best of each counts, so that a busy moment of the machine hits both
alike. A rate is that of training alone, from a run's first row to its last but one; its seconds are those of all of it.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from gymnast import config as configs
from gymnast.training.build import build
from gymnast.training.loop import train

ROUNDS = 3
TARGET = 0.9
CASES = {"CartPole-v1": 1_500_000, "LunarLander-v3": 300_000}


@dataclass(frozen=True)
class Measured:
    rate: float  # env steps a second
    seconds: float  # of the whole run
    evaluations: int
    videos: int
    weights: dict[str, torch.Tensor]


def measure(target: str, steps: int, on: bool) -> Measured:
    judging = (
        [f"eval.every={steps // 20}", "eval.background=true", f"log.video={steps // 5}"] if on else ["eval.every=0"]
    )
    settings = [f"train.total_timesteps={steps}", f"log.every={steps // 100}", "stop.on_solved=false", *judging]
    rows: list[tuple[float, float]] = []  # env steps, and when
    scores = []

    def observe(row: dict[str, float]) -> None:
        scores.extend([row["eval/step"]] if "eval/step" in row else [])
        if "train/loss" in row:
            rows.append((row["time/total_timesteps"], perf_counter()))

    state = build(configs.load(target, settings).config, None)
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), perf_counter()
        try:
            train(state, checkpoints=folder, observer=observe, videos=folder / "videos")
        finally:
            state.close()
        seconds = perf_counter() - began
        videos = len(list((folder / "videos").glob("*.mp4")))
    (first, at_first), (last, at_last) = rows[0], rows[-2]
    weights = {key: tensor.detach().clone() for key, tensor in state.agent.state_dict().items()}
    return Measured((last - first) / (at_last - at_first), seconds, len(scores), videos, weights)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    passed = True
    for target, steps in CASES.items():
        runs: dict[bool, list[Measured]] = {False: [], True: []}
        for _ in range(rounds):
            for on in runs:
                runs[on].append(measure(target, steps, on))
        off, on_ = (max(runs[on], key=lambda run: run.rate) for on in runs)
        ratio = on_.rate / off.rate
        first = runs[False][0].weights
        equal = all(torch.equal(first[key], run.weights[key]) for on in runs for run in runs[on] for key in first)
        passed = passed and ratio >= TARGET and equal
        print(f"{target}, {steps:,} steps, best of {rounds}: off {off.rate:,.0f} steps/s ({off.seconds:.1f} s),")
        print(f"  on {on_.rate:,.0f} ({on_.seconds:.1f} s, {on_.evaluations} evaluations, {on_.videos} videos).")
        print(f"  Ratio {ratio:.3f}, target {TARGET}.")
        print(f"  Weights at the end of all {2 * rounds} runs: {'bit-equal' if equal else 'NOT EQUAL'}.", flush=True)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
