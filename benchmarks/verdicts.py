"""How often a run is called solved that is not, and whether the score printed with "solved" is true.

`python benchmarks/verdicts.py`: simulated runs, and the coverage of the intervals.
`python benchmarks/verdicts.py --hostile`: the same with returns that break the assumptions, with and without a floor.
`python benchmarks/verdicts.py --first`: how many episodes the first verdict on ten typical agents takes.
`python benchmarks/verdicts.py --real 40`: real training runs, on an env that no agent can influence.

Every agent of a run has the same true mean, some standard deviations from the threshold. An evaluation of 20 episodes
that reaches the threshold calls for a verdict, as in a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gymnast.core.statistics import interval, mean, mean_interval
from gymnast.judge.evidence import Evidence, Range, error_of, price, unseen, weigh

Returns = NDArray[np.float64]
Draw = Callable[[int], Returns]
BELOW = (0.0, 0.05, 0.1, 0.2, -0.3)  # standard deviations that the true mean lies below the threshold
EVALUATIONS, EPISODES, BLOCK, MOST = 40, 20, 100, 1000
TRAINING_EPISODES = 500


def kinds(rng: np.random.Generator) -> dict[str, Draw]:
    """Returns of mean 0 and standard deviation 1."""

    def crashes(n: int) -> Returns:
        bad = rng.random(n) < 0.05
        return np.where(bad, -np.sqrt(19), np.sqrt(1 / 19))

    return {
        "normal": lambda n: rng.normal(size=n),
        "skewed to the left (exponential)": lambda n: 1 - rng.exponential(size=n),
        "5 % crashes, else constant": crashes,
    }


def verdict(draw: Draw, threshold: float, seen: Range, error: float, evaluation: Returns) -> tuple[Evidence, Returns]:
    """Episodes one after another until they decide, as in a run."""
    returns = np.empty(0)
    while True:
        returns = np.concatenate([returns, draw(BLOCK)])
        evidence = weigh(returns, threshold, seen, error, evaluation, BLOCK)
        if evidence.shown or not evidence.worth_more(MOST):
            return evidence, returns[: evidence.episodes]


def run(
    draw: Draw,
    threshold: float,
    floor: float | None = None,
    training: Draw | None = None,
    evaluations: int = EVALUATIONS,
    episodes: int = TRAINING_EPISODES,
) -> tuple[Returns, Range, Evidence] | None:
    """The reported episodes of a run that is called solved, the range of its returns, and what has shown it.

    `training`: what its training episodes return, where that is not what the agents do.
    """
    everything = (training or draw)(episodes)
    seen = Range(float(everything.min()), float(everything.max()), floor)
    verdicts = 0
    for _ in range(evaluations):
        evaluation = draw(EPISODES)
        seen = seen.over(evaluation)
        if evaluation.mean() < threshold or price(evaluation, threshold, seen, error_of(verdicts + 1)) > MOST:
            continue
        verdicts += 1
        evidence, returns = verdict(draw, threshold, seen, error_of(verdicts), evaluation)
        seen = seen.over(returns)
        if evidence.shown:
            score = draw(BLOCK)
            return score, seen.over(score), evidence
    return None


def simulated(runs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    print(f"{runs} simulated runs of {EVALUATIONS} evaluations; the mean lies below the threshold by ... sd\n")
    print(f"{'returns':34}{'below':>7}{'solved':>9}{'interval holds':>16}{'score - truth':>15}")
    for name, draw in kinds(rng).items():
        for below in BELOW:
            found = [scored[:2] for _ in range(runs) if (scored := run(draw, below)) is not None]
            report(name, below, len(found), runs, found)


def report(name: str, below: float, solved: int, runs: int, found: list[tuple[Returns, Range]]) -> None:
    held = [low <= 0 <= high for low, high in (mean_interval(x, seen.worst, seen.high) for x, seen in found)]
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
                seen = Range(float(others.min()), float(others.max())).over(x)
                for i, (low, high) in enumerate((interval(mean, x), mean_interval(x, seen.worst, seen.high))):
                    held[i] += low <= 0 <= high
                    widths[i] += high - low
            print(
                f"{name:34}{n:5}{held[0] / samples:11.1%}{held[1] / samples:8.1%}{widths[1] / widths[0]:6.2f}x",
                flush=True,
            )


def hostile(runs: int, seed: int) -> None:
    """Every agent's true mean is exactly the threshold, so that "solved" is always wrong."""
    rng = np.random.default_rng(seed)

    def rare(chance: float, cost: float, sd: float) -> Draw:
        return lambda n: np.where(rng.random(n) < chance, -cost, cost * chance / (1 - chance)) + sd * rng.normal(size=n)

    def pareto(exponent: float) -> Draw:
        return lambda n: exponent / (exponent - 1) - 1 - rng.pareto(exponent, n)

    def slots(n: int) -> Returns:
        offsets = rng.normal(size=EPISODES) * np.sqrt(0.3)
        return np.resize(offsets, n) + np.sqrt(0.7) * rng.normal(size=n)

    def common(n: int) -> Returns:
        return np.sqrt(0.3) * rng.normal() + np.sqrt(0.7) * rng.normal(size=n)

    def success(chance: float) -> Draw:
        return lambda n: (rng.random(n) < chance) * 1.0 - chance

    zero: Draw = lambda n: np.zeros(n)  # noqa: E731
    up: Draw = lambda n: np.append(np.zeros(n - 1), 1.0)  # noqa: E731
    crash, few = lambda n: np.append(rare(0.005, 1000, 10)(n - 1), -1000.0), rare(0.005, 1000, 1)
    cases: list[tuple[str, Draw, Draw | None, float, float | None, int, int]] = [
        # returns, training, threshold, true floor, evaluations, episodes of training
        ("1 in 200 costs 1,000, sd 1; training as well", few, None, 0, -1010, 40, 500),
        ("1 in 200 costs 1,000, sd 10; training has seen one", rare(0.005, 1000, 10), crash, 0, -1060, 40, 500),
        ("1 in 200 costs 1,000, sd 1; 12 training episodes", few, None, 0, -1010, 40, 12),
        ("1 in 1,000 costs 5,000; 500 training episodes", rare(0.001, 5000, 1), None, 0, -5010, 40, 500),
        ("1 in 1,000 costs 5,000; 5,000 training episodes", rare(0.001, 5000, 1), None, 0, -5010, 40, 5000),
        ("left Pareto tail, exponent 2.5, asked 60 times", pareto(2.5), None, 0, None, 60, 500),
        ("left Pareto tail, exponent 1.5, asked 60 times", pareto(1.5), None, 0, None, 60, 500),
        ("left Pareto tail, exponent 1.2, asked 60 times", pareto(1.2), None, 0, None, 60, 500),
        ("env slots with offsets of their own, rho 0.3", slots, None, 0, -6, 60, 500),
        ("one common offset a verdict, rho 0.3", common, None, 0, -6, 60, 500),
        ("success 0.99, threshold 1", success(0.99), None, 1 - 0.99, -0.99, 40, 500),
        ("success 0.95, threshold 1", success(0.95), None, 1 - 0.95, -0.95, 40, 500),
        ("success 0.7, threshold 0.7", success(0.7), None, 0, -0.7, 60, 500),
        ("always the threshold; training never more", zero, None, 0, -1, 40, 500),
        ("always the threshold; training once more", zero, up, 0, -1, 40, 500),
    ]
    print(f"{runs} simulated runs each, whose agents' true mean is the threshold, or below it where that is said\n")
    head = ("with a floor", "without", "interval holds", "solved: unseen rarer than")
    print(f"{'returns':54}" + "".join(f"{name:>26}" for name in head))
    for name, draw, training, threshold, floor, evaluations, episodes in cases:
        simulate = partial(run, draw, threshold, training=training, evaluations=evaluations, episodes=episodes)
        safe = "-" if floor is None else f"{np.mean([simulate(floor) is not None for _ in range(runs)]):.1%}"
        found = [scored for _ in range(runs) if (scored := simulate(None)) is not None]
        ends = [mean_interval(x, seen.worst, seen.high) for x, seen, _ in found]
        held = sum(low <= 0 <= high for low, high in ends)
        rare_as = f"1 in {np.median([1 / unseen(shown.episodes) for *_, shown in found]):.0f}" if found else "-"
        cells = safe, f"{len(found) / runs:.1%}", f"{held} of {len(found)}", rare_as
        print(f"{name:54}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


def first(runs: int, seed: int) -> None:
    """Episodes of the first verdict on ten typical agents, with the lowest return that their env allows."""
    rng = np.random.default_rng(seed)

    def normal(center: float, sd: float, low: float = -np.inf, high: float = np.inf) -> Draw:
        return lambda n: np.clip(rng.normal(center, sd, n), low, high)

    def crashes(center: float, sd: float) -> Draw:
        return lambda n: np.where(rng.random(n) < 0.03, -100.0, rng.normal((center + 3) / 0.97, sd, n))

    agents: list[tuple[str, float, float, Draw]] = [
        ("Pong, threshold 18, mean 18.6", 18, -21, normal(18.6, 1.5, high=21)),
        ("Pong, mean 18.3", 18, -21, normal(18.3, 1.5, high=21)),
        ("Pong, mean 18.6, never below 5", 18, 5, normal(18.6, 1.5, high=21)),
        ("LunarLander, threshold 200, mean 257, 3 % crashes", 200, -550, crashes(257, 20)),
        ("LunarLander, threshold 240, 3 % crashes", 240, -550, crashes(257, 20)),
        ("MountainCar, threshold -110, mean -107, sd 12", -110, -200, normal(-107, 12)),
        ("Acrobot, threshold -100, mean -81", -100, -500, normal(-81, 15)),
        ("Breakout, threshold 100, mean 109, sd 55", 100, 0, normal(109, 55, low=0)),
        ("CartPole, all 500", 475, 1, normal(500, 0)),
        ("Hopper, threshold 2,500, mean 3,180, sd 430", 2500, 0, normal(3180, 430)),
    ]
    print(f"mean episodes of a first verdict (at most {MOST:,}), {runs} samples each\n")
    print(f"{'agent':54}{'floor known':>14}{'not known':>14}{'shown':>9}")
    for name, threshold, low, draw in agents:
        took, shown = {True: [], False: []}, 0
        for known in (True, False):
            for _ in range(runs):
                evaluation = draw(EPISODES)
                seen = Range(low, max(threshold, float(evaluation.max())), low if known else None).over(evaluation)
                evidence, _ = verdict(draw, threshold, seen, error_of(1), evaluation)
                took[known].append(evidence.episodes)
                shown += known and evidence.shown
        print(f"{name:54}{np.mean(took[True]):14.0f}{np.mean(took[False]):14.0f}{shown / runs:9.0%}", flush=True)


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
    parser.add_argument("--hostile", action="store_true", help="returns that break the assumptions")
    parser.add_argument("--first", action="store_true", help="episodes of the first verdict on typical agents")
    parser.add_argument("--real", type=int, default=0, help="real runs each, instead of simulated ones")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.real:
        real(arguments.real)
    elif arguments.hostile:
        hostile(arguments.runs, arguments.seed)
    elif arguments.first:
        first(arguments.runs, arguments.seed)
    else:
        simulated(arguments.runs, arguments.seed)
        coverage(arguments.runs, arguments.seed)
