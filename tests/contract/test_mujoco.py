"""MuJoCo: pictures without a display, what it prints, and EnvPool's envs against Gymnasium's."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast.config import EnvConfig
from gymnast.core.errors import UserError
from gymnast.envs.engines.envpool import MUJOCO
from gymnast.envs.make import make_env, make_vec
from gymnast.envs.suites import suite_of

pytest.importorskip("mujoco")


def drawn(env_id: str) -> Any:
    try:
        env = make_env(EnvConfig(id=env_id), render_mode="rgb_array")
    except UserError as error:
        if "found no OpenGL" in str(error):  # a machine without EGL and OSMesa
            pytest.skip(str(error))
        raise
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


HIDDEN = {"HalfCheetah-v5": 1, "Hopper-v5": 1, "InvertedPendulum-v5": 0, "Swimmer-v5": 2, "Walker2d-v5": 1}  # of qpos
CLIPPED = 10.0  # Hopper and Walker2d show no higher speed, so that their state is unknown there


def state_of(env: Any, obs: Any) -> tuple[Any, Any] | None:
    """qpos and qvel behind an observation; where the robot is along its way (hidden) changes nothing."""
    if env.spec.id == "Reacher-v5":
        angles = np.arctan2(obs[2:4], obs[0:2])
        if abs(angles[1]) > 2.9:  # at its stop of 3 it may be pressed beyond pi, which looks like -pi
            return None
        return np.concatenate([angles, obs[4:6]]), np.concatenate([obs[6:8], np.zeros(2)])
    hidden, n = HIDDEN[env.spec.id], env.unwrapped.model.nq
    speeds = obs[n - hidden : n - hidden + env.unwrapped.model.nv]
    if env.spec.id in ("Hopper-v5", "Walker2d-v5") and (np.abs(speeds) >= CLIPPED).any():
        return None
    return np.concatenate([np.zeros(hidden), obs[: n - hidden]]), speeds


@pytest.mark.parametrize("env_id", sorted(MUJOCO))
def test_envpool_steps_as_gymnasium_does(env_id: str) -> None:
    """Each step of EnvPool again in Gymnasium, from the state that EnvPool's observation shows. The envs are chaotic:
    whole episodes of two builds of MuJoCo drift apart (HalfCheetah: 4e-12 after 10 steps, 0.8 after 100)."""
    envpool, mujoco = pytest.importorskip("envpool"), pytest.importorskip("mujoco")
    pool: Any = envpool.make_gymnasium(env_id, num_envs=2, seed=1, num_threads=1)  # float64, unlike our engine
    env: Any = make_env(EnvConfig(id=env_id)).unwrapped
    assert pool.spec.config.max_episode_steps == gym.spec(env_id).max_episode_steps
    rng, (obs, _), compared = np.random.default_rng(0), pool.reset(), 0
    for _ in range(300):
        actions = rng.uniform(env.action_space.low, env.action_space.high, (2, *env.action_space.shape))
        actions = actions.astype(np.float32)
        before = obs.copy()
        obs, reward, terminated, _, info = pool.step(actions)
        for row in range(2):
            state = state_of(env, before[row])
            if info["elapsed_step"][row] == 0 or state is None:  # a reset, which takes no action
                continue
            mujoco.mj_resetData(env.model, env.data)
            env.set_state(*state)
            found = env.step(actions[row])
            np.testing.assert_allclose(obs[row], found[0], rtol=0, atol=1e-6)  # 5e-7 was the most in 1500 steps
            assert reward[row] == pytest.approx(found[1], abs=1e-6)  # EnvPool's is a float32
            assert terminated[row] == found[2]
            compared += 1
    assert compared > 100  # Walker2d is often faster than it shows
    env.close()


@pytest.mark.parametrize("env_id", sorted(MUJOCO))
def test_envpool_starts_and_ends_as_gymnasium_does(env_id: str) -> None:
    """Starts: means and standard deviations of 500 agree within 5 standard errors, and the extremes of what is drawn
    uniformly. Ends: the time limit truncates both at the same step."""
    pytest.importorskip("envpool")
    starts = []
    for engine in ("envpool", "sync"):
        vec = make_vec(EnvConfig(id=env_id, engine=engine, max_episode_steps=2), 10, "train")
        assert vec.engine == engine
        found = [vec.reset(seed).obs["obs"].copy() for seed in range(50)]
        still = np.zeros((10, *vec.action_space.shape), np.float32)  # type: ignore[misc]
        assert not vec.step(still).truncated.any()
        assert vec.step(still).truncated.all()
        starts.append(np.concatenate(found).astype(np.float64))
        vec.close()
    a, b = starts
    error = np.sqrt((a.var(0) + b.var(0)) / 500) + 1e-9
    assert (np.abs(a.mean(0) - b.mean(0)) < 5 * error).all()
    assert (np.abs(np.log((a.std(0) + 1e-9) / (b.std(0) + 1e-9))) < 0.2).all()
    assert (np.abs(np.abs(a).max(0) - np.abs(b).max(0)) < 0.35 * np.abs(b).max(0) + 1e-9).all()


@pytest.mark.parametrize("name", ["Ant", "HalfCheetah", "Hopper", "Humanoid", "InvertedDoublePendulum", "Pusher"])
def test_what_a_reward_is_made_of_adds_up(name: str) -> None:
    env = make_env(EnvConfig(id=f"{name}-v5"))
    suite = suite_of(f"{name}-v5")
    env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(5):
        _, reward, *_, info = env.step(env.action_space.sample())
        parts = suite.reward_parts(env.unwrapped, info)
        assert len(parts) > 1
        assert sum(parts.values()) == pytest.approx(float(reward), abs=1e-9)
    env.close()


def test_a_picture_for_play_is_like_the_env_s_own() -> None:
    """With coarser shadows and edges: most pixels are the same."""
    env = drawn("Hopper-v5")
    own = env.render().astype(int)
    suite_of("Hopper-v5").draw_quickly(env.unwrapped)
    quick = env.render().astype(int)
    env.close()
    assert quick.shape == own.shape
    assert 0 < np.abs(quick - own).mean() < 3
