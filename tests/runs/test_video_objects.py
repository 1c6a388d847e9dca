"""Videos with boxes around a game's objects: they are on the objects."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest

from gymnast.core.errors import UserError
from gymnast.verbs.train import start
from gymnast.verbs.video import record_video
from gymnast.video.overlay import CHOSEN

pytest.importorskip("ale_py")

TINY = ["env.n_envs=2", "algo.n_steps=16", "algo.batch_size=32", "algo.n_epochs=1", "eval.episodes=1"]
SHORT = "env.max_episode_steps=120"


@pytest.mark.timeout(300)
def test_boxes_are_drawn_around_the_objects(tmp_path: Path) -> None:
    """Pong from RAM: its config has no table, that of the preset is taken. The player's paddle is at column 140 and the
    picture is twice as large, in the middle of a canvas of 480: the box goes down at (480 - 320) / 2 + 2 x 140 - 2."""
    start("ALE/Pong-v5:ram", [*TINY, SHORT], tmp_path, seed=1, steps=32, quiet=True)
    found = record_video("@last", tmp_path, objects=True).data
    assert found["video"].name == "best_objects.mp4"
    described = json.loads(found["video"].with_suffix(".json").read_text())
    with av.open(str(found["video"])) as file:
        pictures = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    assert len(pictures) == described["frames"] == 31  # 120 frames are 30 decisions
    near = np.abs(pictures[5].astype(int) - CHOSEN).sum(-1) < 120
    assert near[:420, 356:360].sum() > 20
    record_video("@last", tmp_path, out=tmp_path / "plain.mp4")
    with av.open(str(tmp_path / "plain.mp4")) as file:
        plain = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    assert (np.abs(plain[5].astype(int) - CHOSEN).sum(-1) < 120)[:420].sum() == 0


@pytest.mark.timeout(300)
def test_an_env_without_objects_is_refused(tmp_path: Path) -> None:
    start("CartPole-v1", TINY, tmp_path, steps=32, quiet=True)
    with pytest.raises(UserError, match="--objects: CartPole-v1 says nothing of objects"):
        record_video("@last", tmp_path, objects=True)
    start("ALE/Freeway-v5:ram", [*TINY, SHORT], tmp_path, steps=32, quiet=True)
    with pytest.raises(UserError, match=r"--objects: there is no table of RAM cells for ALE/Freeway-v5. Write one"):
        record_video("@last", tmp_path, objects=True)
