"""How often a run is called solved that is not, and whether the score printed with "solved" is true.

`python benchmarks/verdicts.py`: simulated runs, and the coverage of the intervals.
`python benchmarks/verdicts.py --real 40`: real training runs, on an env that no agent can influence.

Every agent of a run has the same true mean, some standard deviations from the threshold. An evaluation of 20 episodes
that reaches the threshold calls for a verdict, as in a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gymnast.core.statistics import interval, mean, mean_interval
from gymnast.judge.evidence import Range, error_of, weigh

Draw = Callable[[int], NDArray[np.float64]]
BELOW = (0.0, 0.05, 0.1, 0.2, -0.3)  # standard deviations that the true mean lies below the threshold
EVALUATIONS, EPISODES, BLOCK, MOST = 40, 20, 100, 1000
TRAINING_EPISODES = 500


def kinds(rng: np.random.Generator) -> dict[str, Draw]:
    """Returns of mean 0 and standard deviation 1."""

    def crashes(n: int) -> NDArray[np.float64]:
        bad = rng.random(n) < 0.05
        return np.where(bad, -np.sqrt(19), np.sqrt(1 / 19))

    return {
        "normal": lambda n: rng.normal(size=n),
        "skewed to the left (exponential)": lambda n: 1 - rng.exponential(size=n),
        "5 % crashes, else constant": crashes,
    }


def run(draw: Draw, threshold: float) -> tuple[NDArray[np.float64], Range] | None:
    """The reported episodes of a run that is called solved, and the range of its returns."""
    everything = draw(TRAINING_EPISODES)
    seen = Range(float(everything.min()), float(everything.max()))
    verdicts = 0
    for _ in range(EVALUATIONS):
        evaluation = draw(EPISODES)
        seen = seen.over(evaluation)
        if evaluation.mean() < threshold:
            continue
        verdicts += 1
        returns = np.empty(0)
        while True:
            returns = np.concatenate([returns, draw(BLOCK)])
            evidence = weigh(returns, threshold, seen, error_of(verdicts))
            if evidence.shown:
                score = draw(BLOCK)
                return score, seen.over(returns).over(score)
            if not evidence.worth_more(MOST):
                seen = seen.over(returns)
                break
    return None


def simulated(runs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    print(f"{runs} simulated runs of {EVALUATIONS} evaluations; the mean lies below the threshold by ... sd\n")
    print(f"{'returns':34}{'below':>7}{'solved':>9}{'interval holds':>16}{'score - truth':>15}")
    for name, draw in kinds(rng).items():
        for below in BELOW:
            found = [scored for _ in range(runs) if (scored := run(draw, below)) is not None]
            report(name, below, len(found), runs, found)


def report(name: str, below: float, solved: int, runs: int, found: list[tuple[NDArray[np.float64], Range]]) -> None:
    held = [low <= 0 <= high for low, high in (mean_interval(x, seen.low, seen.high) for x, seen in found)]
    bias = float(np.mean([x.mean() for x, _ in found])) if found else np.nan
    error = 0.1 / np.sqrt(len(found)) if found else np.nan
    holds = f"{np.mean(held):.1%}" if held else "-"
    said = f"{bias:+.3f} ± {error:.3f}" if found else "-"
    print(f"{name:34}{below:7.2f}{solved / runs:9.1%}{holds:>16}{said:>16}", flush=True)


def coverage(samples: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    print("\nhow often a 95 % interval of n episodes holds the true mean; range: of the run's other returns\n")
    print(f"{'returns':34}{'n':>5}{'bootstrap':>11}{'ours':>8}{'width':>7}")
    for n in (20, 100):
        for name, draw in kinds(rng).items():
            held, widths = np.zeros(2), np.zeros(2)
            for _ in range(samples):
                others, x = draw(TRAINING_EPISODES), draw(n)
                for i, (low, high) in enumerate((interval(mean, x), mean_interval(x, others.min(), others.max()))):
                    held[i] += low <= 0 <= high
                    widths[i] += high - low
            print(
                f"{name:34}{n:5}{held[0] / samples:11.1%}{held[1] / samples:8.1%}{widths[1] / widths[0]:6.2f}x",
                flush=True,
            )


def real(runs: int) -> None:
    """The loop itself, on an env whose returns no action changes."""
    import gymnasium as gym

    from gymnast import config as configs
    from gymnast.training.build import build
    from gymnast.training.loop import train

    class Noise(gym.Env[NDArray[np.float32], Any]):
        observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
            return np.zeros(1, np.float32), float(self.np_random.normal()), True, False, {}

    print(f"\n{runs} real runs each: PPO, 20 evaluations, normal returns\n")
    print(f"{'runs':34}{'below':>7}{'solved':>9}{'interval holds':>16}{'score - truth':>15}")
    for number, (watch, below) in enumerate([*(("eval", b) for b in BELOW), ("train", 0.1)]):
        found = []
        for seed in range(runs):
            data = {
                "env": {"id": "Noise-v0", "n_envs": 8, "engine": "sync"},
                "algo": {"n_steps": 16, "batch_size": 32, "n_epochs": 1},
                "agent": {"hidden": [4]},
                "train": {"seed": 1000 * number + seed, "total_timesteps": 2560, "threads": 1},
                "stop": {"watch": watch},
                "log": {"diagnostics": 0},
            }
            state = build(configs.validate(data), below, factory=Noise)
            try:
                result = train(state)
            finally:
                state.close()
            if result.solved and result.verdict is not None:
                found.append((result.verdict.evaluation.returns, result.verdict.seen))
        report(f"stop.watch: {watch}", below, len(found), runs, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs each")
    parser.add_argument("--real", type=int, default=0, help="real runs each, instead of simulated ones")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.real:
        real(arguments.real)
    else:
        simulated(arguments.runs, arguments.seed)
        coverage(arguments.runs, arguments.seed)
