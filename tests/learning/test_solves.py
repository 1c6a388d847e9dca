"""Presets that must solve their env, and without an alert, over seeds. Slow: `make learn`."""

from __future__ import annotations

from statistics import median

import pytest

from gymnast import config
from gymnast.training.build import build
from gymnast.training.loop import Result, train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def solve(target: str, seed: int) -> tuple[Result, list[str]]:
    """How the run ended, and which rules found something wrong with it."""
    resolved = config.load(target, [f"train.seed={seed}"])
    session = build(resolved.config, resolved.threshold)
    try:
        result = train(session)
    finally:
        session.close()
    return result, [alert.rule for alert in session.alerts.alerts if alert.severity != "info"]


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("variant", ["ppo", "a2c", "reinforce"])
def test_cartpole_is_solved(variant: str, seed: int) -> None:
    result, alerts = solve(f"CartPole-v1:{variant}", seed)
    assert result.solved
    assert result.verdict is not None
    assert result.verdict.evaluation.episodes >= 100
    assert result.verdict.evaluation.mean >= 475
    assert alerts == []


@pytest.mark.parametrize(
    "target",
    [
        "Acrobot-v1:ppo",
        "MountainCar-v0:ppo",
        "MountainCar-v0:shaped",
        "MountainCarContinuous-v0:ppo",
        "Pendulum-v1:ppo",
        "FrozenLake-v1:ppo",
        "FrozenLake-v1:reinforce",
        "FrozenLake8x8-v1:ppo",
        "CliffWalking-v1:ppo",
        "Taxi-v4:ppo",
        "Blackjack-v1:ppo",
        "LunarLander-v3:ppo",
        "CartPole-v1:and-acrobot",
    ],
)
def test_most_runs_solve_and_none_of_these_raises_an_alert(target: str) -> None:
    runs = [solve(target, seed) for seed in (1, 2, 3)]
    solved = [alerts for result, alerts in runs if result.solved]
    assert len(solved) >= 2
    assert [alerts for alerts in solved if alerts] == []


@pytest.mark.parametrize("target, score", [("LunarLanderContinuous-v3:ppo", 200.0), ("BipedalWalker-v3:ppo", 250.0)])
def test_the_median_run_learns_what_not_every_run_solves(target: str, score: float) -> None:
    """benchmarks/RESULTS.md has 4 and 3 of 5 seeds at the thresholds of 270 and 300, with medians of 270 and 302."""
    scores = []
    for seed in range(1, 6):
        result, _ = solve(target, seed)
        assert result.verdict is not None
        scores.append(result.verdict.evaluation.mean)
    assert median(scores) >= score
