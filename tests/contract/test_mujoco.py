"""MuJoCo's pictures without a display, and what it says on the side."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gymnast.config import EnvConfig
from gymnast.core.errors import UserError
from gymnast.envs.make import make_env

pytest.importorskip("mujoco")


def drawn(env_id: str) -> Any:
    env = make_env(EnvConfig(id=env_id), render_mode="rgb_array")
    env.reset(seed=1)
    return env


def test_each_of_several_envs_draws_its_own_pictures() -> None:
    """Gymnasium would draw the first env in the second one's context, and black once an env was freed."""
    hopper = drawn("Hopper-v5")
    alone = hopper.render()
    assert alone.shape == (480, 480, 3)
    assert alone.std() > 10
    ant = drawn("Ant-v5")
    second = ant.render()
    np.testing.assert_array_equal(hopper.render(), alone)
    hopper.close()
    hopper.close()
    del hopper
    np.testing.assert_array_equal(ant.render(), second)
    ant.close()


def test_without_opengl_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer

    monkeypatch.setattr(OffScreenViewer, "free", OffScreenViewer.free)  # restored afterwards
    monkeypatch.setenv("MUJOCO_GL", "no-such-library")
    with pytest.raises(UserError, match=r"Hopper-v5 can be trained here, not watched: .*apt install libegl1"):
        make_env(EnvConfig(id="Hopper-v5"), render_mode="rgb_array")
    make_env(EnvConfig(id="Hopper-v5")).close()


def test_its_warnings_go_to_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """HalfCheetah's model uses a setting that MuJoCo 4 will drop."""
    monkeypatch.chdir(tmp_path)
    make_env(EnvConfig(id="HalfCheetah-v5")).close()
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")
    assert "mujoco" in sys.modules
