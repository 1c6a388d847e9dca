"""Does the compiled network learn like torch's? Greedy scores over training, several seeds, on both.

    python benchmarks/same_learning.py [SEEDS]

Number for number they agree to 1e-5 an update (`tests/unit/test_dense_net.py`); over thousands of updates rounding
makes two runs different runs, so what can be compared is how they do on average.
"""

from __future__ import annotations

import sys
from unittest.mock import patch

import numpy as np

from gymnast import config as configs
from gymnast.agent.nets.dense_net import DenseNet
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.training.build import build
from gymnast.training.loop import train

CASES = {"CartPole-v1:zoo": 30_000, "CartPole-v1:a2c": 60_000, "CartPole-v1:reinforce": 60_000}
EVALUATIONS = 6
NETS = {"compiled": DenseNet, "torch": TorchNet}


def scores(target: str, steps: int, seed: int, net: str) -> list[float]:
    settings = [f"train.seed={seed}", f"train.total_timesteps={steps}", f"eval.every={steps // EVALUATIONS}"]
    config = configs.load(target, [*settings, "stop.on_solved=false", "train.threads=1"]).config
    seen: list[float] = []

    def observe(row: dict[str, float]) -> None:
        if "eval/mean_reward" in row:
            seen.append(row["eval/mean_reward"])

    with patch("gymnast.training.build.choose_net", NETS[net]):
        state = build(config, None)
    train(state, observer=observe)
    state.close()
    return seen[:EVALUATIONS]


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for target, steps in CASES.items():
        print(f"{target}, greedy score every {steps // EVALUATIONS:,} steps, mean of {seeds} seeds ± standard error")
        for net in NETS:
            table = np.array([scores(target, steps, seed, net) for seed in range(1, seeds + 1)])
            error = table.std(0, ddof=1) / np.sqrt(seeds)
            print(f"  {net:9}", "  ".join(f"{m:5.0f} ± {e:3.0f}" for m, e in zip(table.mean(0), error, strict=True)))


if __name__ == "__main__":
    main()
