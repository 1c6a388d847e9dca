"""Levels of a console game as runs: a curriculum with its checkpoints, all levels at once, a video. On the double of
Super Mario Bros (`tests/mario.py`), in the real emulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gymnast.cli import app
from gymnast.sinks.jsonl import read_metrics
from tests import mario

pytest.importorskip("stable_retro")
pytestmark = pytest.mark.timeout(300)  # many processes: an emulator each

RULES = "actions: [NOOP, RIGHT, RIGHT+A], score: win, screen_size: 16, stack: 1, no_progress: 60"
BASE = f"""
env:
  id: Retro/SuperMarioBros-Nes
  n_envs: 2
  kwargs: {{state: Level1-1, {RULES}}}
  shaping: {{progress: 1, level: 50, death: 25, time: 0.1}}
  reward: {{scale: 0.1}}
agent: {{encoder: small_cnn, hidden: [], shared: true}}
algo: {{n_steps: 32, batch_size: 32, n_epochs: 2, gamma: 0.9}}
train: {{total_timesteps: 128, seed: 1}}
eval: {{every: 64, episodes: 2, n_envs: 1}}
stop: {{episodes: 2, max_episodes: 2}}
"""
CURRICULUM = f"""{BASE}
stages:
  Level1-1: {{advance: {{steps: 64}}}}
  Level2-1: {{env: {{kwargs: {{state: Level2-1, {RULES}}}}}}}
"""
LEVELS = f"""{BASE}
tasks:
  - {{name: Level1-1}}
  - {{name: Level2-1, env: {{kwargs: {{state: Level2-1, {RULES}}}}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("retro")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GYMNAST_RETRO", str(folder / "roms"))
        mario.install(folder / "roms")
        yield folder


def gymnast(*words: str | Path) -> dict[str, Any]:
    shown = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False, standalone_mode=False)
    found = json.loads(shown.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_a_curriculum_over_levels(folder: Path) -> None:
    """A checkpoint of each level's end; scores are win rates, so that forgetting is one too; a video of any level."""
    (folder / "curriculum.yaml").write_text(CURRICULUM)
    runs = folder / "runs"
    result = gymnast("train", folder / "curriculum.yaml", "--runs-dir", runs)
    assert [(one["stage"], one["steps"]) for one in result["stages"]] == [("Level1-1", 64), ("Level2-1", 64)]
    assert (runs / result["run"] / "checkpoints" / "stage_Level1-1.safetensors").exists()
    rows = read_metrics(runs / result["run"] / "metrics.jsonl")
    assert 0 <= rows[-1]["stage/Level1-1/mean_reward"] <= 1
    assert -1 <= rows[-1]["forgetting/Level1-1"] <= 1
    row = next(row for row in reversed(rows) if "rollout/success_rate" in row)
    assert row["rollout/success_rate"] == row["rollout/ep_rew_mean"]
    parts = [row[f"rollout/component/{name}"] for name in ("env", "progress", "level", "death", "time")]
    assert row["rollout/ep_shaped_rew_mean"] == pytest.approx(sum(parts))
    video = gymnast("video", f"{result['run']}/stage_Level1-1", "--episodes", "2", "--runs-dir", runs)
    about = json.loads(Path(video["video"]).with_suffix(".json").read_text())
    assert about["parts"][0]["actions"] == ["NOOP", "RIGHT", "RIGHT+A"]
    assert len(about["parts"][0]["episodes"]) == 2


def test_one_run_over_all_levels(folder: Path) -> None:
    (folder / "levels.yaml").write_text(LEVELS)
    result = gymnast("train", folder / "levels.yaml", "--runs-dir", folder / "runs")
    rows = read_metrics(folder / "runs" / result["run"] / "metrics.jsonl")
    names = {name for row in rows for name in row}
    for level in ("Level1-1", "Level2-1"):
        assert {f"rollout/ep_rew_mean/{level}", f"eval/mean_reward/{level}"} <= names
    assert all(0 <= value <= 1 for row in rows for name, value in row.items() if "mean_reward/Level" in name)
