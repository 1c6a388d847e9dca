"""Small, quick configs for whole runs."""

from __future__ import annotations

from typing import Any

import pytest

from gymnast.config import RunConfig, validate
from gymnast.training.build import build
from gymnast.training.state import TrainState


def small_config(name: str = "ppo", env_id: str = "CartPole-v1", **sections: dict[str, Any]) -> RunConfig:
    algos: dict[str, dict[str, Any]] = {
        "ppo": {"name": "ppo", "n_steps": 32, "batch_size": 64, "n_epochs": 2},
        "a2c": {"name": "a2c", "n_steps": 16},
        "reinforce": {"name": "reinforce", "n_steps": 64},
    }
    data: dict[str, Any] = {
        "env": {"id": env_id, "n_envs": 4, "engine": "sync"},
        "agent": {"hidden": [16]},
        "algo": algos[name],
        "train": {"total_timesteps": 4096, "seed": 1},
        "eval": {"every": 1024, "episodes": 4},
        "stop": {"on_solved": False, "episodes": 4},
    }
    for section, values in sections.items():
        data[section] = {**data[section], **values} if section in data else values
    return validate(data)


def collect(session: TrainState) -> None:
    """The next rollout, as the loop collects it."""
    session.collector.fill(session.rollout, lambda phase: None)


@pytest.fixture
def make_session():  # type: ignore[no-untyped-def]
    """Builds sessions and closes their envs afterwards."""
    made: list[TrainState] = []

    def make(config: RunConfig, threshold: float | None = None, **options: Any) -> TrainState:
        made.append(build(config, threshold, **options))
        return made[-1]

    yield make
    for session in made:
        session.close()
