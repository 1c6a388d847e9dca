"""A disk that is full for a while costs a training nothing but a warning."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from gymnast.core import files
from gymnast.runs import checkpoint
from gymnast.sinks import SinkGroup
from gymnast.training.loop import train
from tests.invariants.conftest import small_config


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_checkpoints_are_tried_again(
    number: int, tmp_path: Path, make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One every 512 steps. There is no room at 1,024, where a new best is found, and at 1,536."""
    full = False

    def write(path: Path, data: bytes) -> None:
        if full and path.suffix == ".safetensors":
            raise OSError(number, "No space left on device")
        files.write_atomic(path, data)

    def look(row: dict[str, float]) -> None:
        nonlocal full
        full = 1024 <= row["time/total_timesteps"] < 2048

    monkeypatch.setattr(checkpoint, "write_atomic", write)
    warnings: list[str] = []
    session = make_session(small_config(train={"checkpoint_every": 512}, log={"every": 512}))
    result = train(session, SinkGroup([], warnings.append), tmp_path, look)
    assert (result.stop_reason, result.env_steps) == ("steps", 4096)
    names = {path.stem for path in tmp_path.glob("*.safetensors")}
    assert names == {"best", "last", *(f"step_{step}" for step in (512, 2048, 2560, 3072, 3584, 4096))}
    assert checkpoint.load(tmp_path / "last.safetensors").step == 4096
    record, best = session.judge.record, checkpoint.load(tmp_path / "best.safetensors")
    assert best.metrics["eval/mean_reward"] == record.best_score
    assert json.loads((tmp_path / "best.json").read_text())["step"] == best.step
    said = [line.partition("cannot save ")[2].partition(" (")[0].rpartition("/")[2] for line in warnings]
    assert sorted(set(said)) == [
        "best.safetensors",
        "last.safetensors",
        "step_1024.safetensors",
        "step_1536.safetensors",
    ]
    assert all("The training goes on" in line for line in warnings)


def test_the_last_checkpoint_must_be_written(
    tmp_path: Path, make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_atomic", write)
    warnings: list[str] = []
    steps: list[float] = []
    session = make_session(small_config(log={"every": 512}))
    with pytest.raises(checkpoint.CheckpointError, match=r"cannot save .*: No space left"):
        train(session, SinkGroup([], warnings.append), tmp_path, lambda row: steps.append(row["time/total_timesteps"]))
    assert steps[-1] == 4096
    assert "is tried again with the next checkpoint" in warnings[0]
