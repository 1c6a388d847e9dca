"""Presets that must solve their env, on several seeds. Slow: `make learn`."""

from __future__ import annotations

import pytest

from gymnast import config
from gymnast.session import build
from gymnast.train import train


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("variant", ["ppo", "a2c", "reinforce"])
def test_cartpole_is_solved(variant: str, seed: int) -> None:
    resolved = config.load(f"CartPole-v1:{variant}", [f"train.seed={seed}"])
    session = build(resolved.config, resolved.threshold)
    result = train(session)
    session.close()
    assert result.solved
    assert result.verdict is not None
    assert result.verdict.evaluation.episodes >= 100
    assert result.verdict.evaluation.mean >= 475
