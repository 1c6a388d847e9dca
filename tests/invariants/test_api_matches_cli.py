"""The API and the command train the same run: same config, same seed, same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gymnast
from gymnast import A2C, PPO, REINFORCE

STEPS = 2048


def numbers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the clock's readings, which differ from run to run."""
    timed = ("time/elapsed", "time/fps", "time/updates_per_second", "time/share/")
    return [{key: value for key, value in row.items() if not key.startswith(timed)} for row in rows]


@pytest.mark.parametrize("model", [PPO, A2C, REINFORCE])
def test_api_matches_cli(model: Any, tmp_path: Path) -> None:
    from gymnast.verbs.train import start

    target = f"CartPole-v1:{model.algo}"
    settings = ["train.seed=5", f"train.total_timesteps={STEPS}", "eval.every=0", "stop.on_solved=false"]
    report = start(target, settings, tmp_path, quiet=True)
    by_command = gymnast.load(report.run, runs_dir=tmp_path)

    rows: list[dict[str, float]] = []
    by_api = model(target, seed=5).learn(STEPS, callback=rows.append)

    written = [json.loads(line) for line in (tmp_path / report.run / "metrics.jsonl").read_text().splitlines()]
    assert numbers(written) == json.loads(json.dumps(numbers(rows)))
    for name, tensor in by_command.policy.state_dict().items():
        assert tensor.equal(by_api.policy.state_dict()[name]), name
