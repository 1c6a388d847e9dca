"""Presets that must solve their env, and without an alert. Slow: `make learn`."""

from __future__ import annotations

import pytest

from gymnast import config
from gymnast.training.build import build
from gymnast.training.loop import Result, train


def solve(target: str, seed: int) -> tuple[Result, list[str]]:
    """How the run ended, and which rules found something wrong with it."""
    resolved = config.load(target, [f"train.seed={seed}"])
    session = build(resolved.config, resolved.threshold)
    try:
        result = train(session)
    finally:
        session.close()
    return result, [alert.rule for alert in session.alerts.alerts if alert.severity != "info"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("variant", ["ppo", "a2c", "reinforce"])
def test_cartpole_is_solved(variant: str, seed: int) -> None:
    result, alerts = solve(f"CartPole-v1:{variant}", seed)
    assert result.solved
    assert result.verdict is not None
    assert result.verdict.evaluation.episodes >= 100
    assert result.verdict.evaluation.mean >= 475
    assert alerts == []


@pytest.mark.slow
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
        "LunarLanderContinuous-v3:ppo",
        "BipedalWalker-v3:ppo",
    ],
)
def test_a_preset_that_solves_raises_no_alert(target: str) -> None:
    result, alerts = solve(target, seed=1)
    assert alerts == []
    assert result.solved
