"""What sinks of the tests know of their run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnast.sinks.base import RunInfo


def run_info(folder: Path | None = None, total_steps: int = 1000, **facts: Any) -> RunInfo:
    """Of a run with the title "CartPole-v1 · ppo · seed 1", and its id if `facts` has one."""
    config = {
        "env": {"id": "CartPole-v1"},
        "algo": {"name": "ppo", "gamma": 0.99},
        "train": {"seed": 1, "total_timesteps": total_steps},
    }
    return RunInfo(folder, config=config, **facts)
