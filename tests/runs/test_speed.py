"""What `gymnast speed` computes from what it measures; our config in another library's words. No timing is asserted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymnast import config as configs
from gymnast.agent.agent import Agent
from gymnast.config.tuned import Tuned, cache_path, find, keep
from gymnast.core.errors import UserError
from gymnast.core.machine import machine
from gymnast.core.schedule import Schedule
from gymnast.envs.make import choose_engine
from gymnast.verbs.speed.advice import changes, more_envs, steps_for
from gymnast.verbs.speed.libraries import baselines_for, parse_names, parse_paths
from gymnast.verbs.speed.libraries.sb3 import points, translate
from gymnast.verbs.speed.limit import products_of
from gymnast.verbs.speed.results import Candidate
from gymnast.verbs.speed.runs import _median
from gymnast.verbs.speed.speed import Windows, limits, steady, thread_settings
from gymnast.verbs.speed.tune import shorter, steps_to_see_a_reward, write_choice


def config(target: str = "CartPole-v1:zoo", *overrides: str) -> configs.RunConfig:
    return configs.load(target, overrides).config


# Our config in stable-baselines3's words


def sb3_model(*args: str) -> Any:
    pytest.importorskip("stable_baselines3")
    from gymnast.verbs.speed.libraries.runners.run_sb3 import make_model

    job, _ = translate(config(*args))
    return make_model(json.loads(json.dumps(job)), seed=0)


def test_the_zoos_cartpole_becomes_the_zoos_cartpole() -> None:
    # RL Baselines3 Zoo, hyperparams/ppo.yml, CartPole-v1: 8 envs, n_steps 32, batch_size 256, gae_lambda 0.8,
    # gamma 0.98, n_epochs 20, ent_coef 0.0, learning_rate lin_0.001, clip_range lin_0.2, MlpPolicy
    model = sb3_model("CartPole-v1:zoo")
    assert type(model).__name__ == "PPO"
    assert (model.n_envs, model.n_steps, model.batch_size, model.n_epochs) == (8, 32, 256, 20)
    assert (model.gamma, model.gae_lambda, model.ent_coef, model.vf_coef) == (0.98, 0.8, 0.0, 0.5)
    assert (model.max_grad_norm, model.target_kl, model.normalize_advantage) == (0.5, None, True)
    # stable-baselines3 asks by the share that is left: a quarter into the run that is 0.75
    assert model.lr_schedule(1.0) == pytest.approx(0.001)
    assert model.lr_schedule(0.75) == pytest.approx(0.00075)
    assert model.clip_range(0.5) == pytest.approx(0.1)
    assert type(model.env).__name__ == "DummyVecEnv"
    assert model.policy.optimizer.defaults["eps"] == 1e-5
    shapes = {name: tuple(p.shape) for name, p in model.policy.named_parameters() if name.endswith("weight")}
    assert sorted(shapes.values()) == sorted([(64, 4), (64, 64), (2, 64), (64, 4), (64, 64), (1, 64)])
    assert any(isinstance(module, torch.nn.Tanh) for module in model.policy.modules())


def test_the_network_is_as_large_as_ours() -> None:
    ours = config("CartPole-v1:zoo", "agent.hidden=[32, 16]", "agent.activation=relu")
    theirs = sb3_model("CartPole-v1:zoo", "agent.hidden=[32, 16]", "agent.activation=relu")
    spaces = ({"obs": gym.spaces.Box(-1, 1, (4,), np.float32)}, gym.spaces.Discrete(2))
    agent = Agent(*spaces, ours.agent, 0.99)
    assert sum(p.numel() for p in theirs.policy.parameters()) == sum(p.numel() for p in agent.parameters())


def test_normalisation_and_actions() -> None:
    model = sb3_model(
        "Pendulum-v1", "agent.normalize_obs=true", "agent.normalize_reward=true", "agent.clip_obs=5", "algo.gamma=0.9"
    )
    env = model.env
    assert type(env).__name__ == "VecNormalize"
    assert (env.norm_obs, env.norm_reward, env.clip_obs, env.gamma) == (True, True, 5.0, 0.9)
    assert env.action_space.high.tolist() == [1.0]  # agent.rescale_actions, though the pendulum takes -2..2


def test_rewards_are_scaled_and_cut_for_them_too() -> None:
    model = sb3_model("CartPole-v1:zoo", "env.reward.scale=3", "env.reward.clip=2", "env.max_episode_steps=7")
    model.env.reset()
    lengths = np.zeros(8, int)
    for step in range(7):  # no pole falls within 7 steps of pushes to alternating sides
        _, reward, done, _ = model.env.step(np.full(8, step % 2))
        assert reward.tolist() == [2.0] * 8  # 1 times 3, cut to 2
        lengths += 1
    assert done.all()


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_a2c(optimizer: str) -> None:
    model = sb3_model("CartPole-v1:a2c", f"algo.optimizer={optimizer}", "algo.optimizer_eps=1e-4")
    assert (type(model).__name__, model.n_steps, model.normalize_advantage) == ("A2C", 32, True)
    assert optimizer in type(model.policy.optimizer).__name__.lower()
    assert model.policy.optimizer.defaults["eps"] == 1e-4


def test_what_cannot_be_translated_is_reported() -> None:
    job, notes = translate(
        config("CartPole-v1:zoo", "algo.ent_coef=lin_0.01", "algo.value_loss=huber", "agent.layer_norm=true")
    )
    assert job["arguments"]["ent_coef"] == 0.01
    assert [note.split()[0] for note in notes] == ["algo.ent_coef", "agent.layer_norm", "algo.value_loss"]
    assert translate(config("CartPole-v1:zoo"))[1] == []


def test_atari_task() -> None:
    job, notes = translate(config("ALE/Pong-v5:zoo"))
    assert notes == []
    assert job["policy"] == "CnnPolicy"
    assert job["env"]["kwargs"]["frameskip"] == 1
    assert job["env"]["atari"]["frame_skip"] == 4
    assert job["env"]["atari"]["clip_reward"] is True
    assert job["env"]["frame_stack"] == 4


def test_schedules_as_points() -> None:
    assert points(Schedule.constant(0.3)) == 0.3
    assert points(Schedule.parse("lin_0.2")) == {"points": [[0.0, 0.2], [1.0, 0.0]]}
    cosine = Schedule.parse({"start": 1.0, "end": 0.0, "shape": "cosine", "floor": 0.1})
    sent = points(cosine)
    assert isinstance(sent, dict)
    progress, values = zip(*sent["points"], strict=True)
    for at in (0.0, 0.1, 0.5, 0.77, 1.0):
        assert np.interp(at, progress, values) == pytest.approx(cosine.value(at), abs=1e-4)


@pytest.mark.parametrize(
    "target, overrides, expected",
    [
        ("CartPole-v1:reinforce", [], "has no reinforce"),
        ("CartPole-v1", ["env.wrappers=[{time_limit: {steps: 50}}]"], "env.wrappers has time_limit"),
        ("Taxi-v4", ["env.action_masks=true"], "no action masks"),
        ("CartPole-v1", ["env.forbid=[[push left]]"], "takes all actions of the env. Add --set env.forbid="),
        ("CartPole-v1:zoo", ["agent.memory=gru", "algo.n_steps=32"], "agent.memory is gru"),
        ("CartPole-v1", ["env.shaping.centring=5"], "Add --set env.shaping.centring=0"),
    ],
)
def test_configs_that_sb3_cannot_run(target: str, overrides: list[str], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        translate(config(target, *overrides))


def test_libraries_by_name() -> None:
    assert parse_names("sb3, cleanrl,") == ["sb3", "cleanrl"]
    assert parse_paths("--python", ["sb3=/usr/bin/python3"]) == {"sb3": "/usr/bin/python3"}
    with pytest.raises(UserError, match="write NAME=PATH"):
        parse_paths("--python", ["sb3"])
    with pytest.raises(UserError, match=r"--against sb4: .* Did you mean 'sb3'"):
        baselines_for(config(), ["sb4"], {})
    with pytest.raises(UserError, match=r"--python sb3=/no/such: no such program"):
        baselines_for(config(), ["sb3"], {"sb3": "/no/such"})
    with pytest.raises(UserError, match="not among those of --against"):
        baselines_for(config(), [], {"sb3": "python3"})


# The arithmetic of the limit


def test_products_of_an_mlp() -> None:
    spaces = ({"obs": gym.spaces.Box(-1, 1, (4,), np.float32)}, gym.spaces.Discrete(2))
    agent = Agent(*spaces, config().agent, 0.99)
    found = products_of(agent, {"obs": np.zeros((8, 4), np.float32)})
    # actor 4*64 + 64*64 + 64*2 = 4480 and critic 4*64 + 64*64 + 64*1 = 4416 multiply-adds, two operations each
    assert sum(product.flops for product in found) == 2 * (4480 + 4416)


def test_products_of_convolutions() -> None:
    settings = config("ALE/Pong-v5:zoo").agent
    assert settings.shared
    assert not settings.hidden
    spaces = ({"obs": gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)}, gym.spaces.Discrete(6))
    found = products_of(Agent(*spaces, settings, 0.99), {"obs": np.zeros((3, 4, 84, 84), np.uint8)})
    convolutions = 20 * 20 * 32 * (8 * 8 * 4) + 9 * 9 * 64 * (4 * 4 * 32) + 7 * 7 * 64 * (3 * 3 * 64)
    assert sum(product.flops for product in found) == 2 * (convolutions + 3136 * 512 + 512 * 6 + 512 * 1)


def test_limit_is_one_after_the_other() -> None:
    whole = Windows()
    whole.add({"steps": 1000, "seconds": 1.0, "phases": {"env": 0.1, "update": 0.8, "log": 0.1}})
    # 1/10,000 s for the env and 1/10,000 s for the arithmetic of a step: 5,000 steps a second; 1,000 are a fifth
    network = {"flops_per_step": 1.0, "matmul_gflops": 1e-5, "matmul_shape": [1, 1, 1]}
    found = limits(8_000, whole, network | {"arithmetic": 10_000.0, "network": 2_500.0})
    assert found["env"] == pytest.approx(10_000)  # the run's own clock saw it faster than random play
    assert found["whole"] == pytest.approx(5_000)
    assert found["share"] == pytest.approx(0.2)
    assert found["torch"] == pytest.approx(2_000)


def test_windows_keep_the_best() -> None:
    windows = Windows()
    windows.add({"steps": 100, "seconds": 1.0, "phases": {"env": 0.5, "act": 0.25, "update": 0.25}})
    windows.add({"steps": 100, "seconds": 0.5, "phases": {"env": 0.3, "act": 0.1, "update": 0.1}})
    assert windows.best == 200
    assert windows.shares() == pytest.approx({"env": 0.6, "act": 0.2, "update": 0.2})
    assert windows.rate_of(["env", "act"]) == pytest.approx(100 / 0.4)


def test_seeds_that_never_solve_count() -> None:
    assert _median([1.0, None, 3.0]) == 3.0
    assert _median([None, None, 3.0]) == math.inf


# Changes worth measuring


def test_more_envs_keep_the_samples_of_an_update() -> None:
    change = more_envs(config(), 4)  # 8 x 32 = 32 x 8
    assert change is not None
    assert change.text == "n_envs 8 -> 32"
    assert change.overrides == ("env.n_envs=32", "algo.n_steps=8")
    assert more_envs(config(), 8) is None  # 64 x 4: too short to learn from
    assert steps_for(config(), 12) is None  # 256 is no multiple of 12
    assert steps_for(config("CartPole-v1:a2c", "algo.n_steps=5"), 8) == 5  # as short as it is now is fine


def test_changes_leave_out_what_is_so_already() -> None:
    texts = [change.text for change in changes(config(), "cartpole", 1, env_rate=1e6)]
    assert texts[:2] == ["n_envs 8 -> 16", "n_envs 8 -> 32"]
    assert "engine cartpole -> sync" in texts
    assert not any("-> cartpole" in text or "-> process" in text or text[-4:] == "-> 1" for text in texts)
    assert "engine sync -> process" in [change.text for change in changes(config(), "sync", 1, env_rate=1e3)]
    for change in changes(config(), "cartpole", 1, 1e6):
        steady(config(), *change.overrides)  # is a valid config


def test_thread_settings_of_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymnast.verbs.speed.speed.cores", lambda: 2)
    assert thread_settings(2, two_may_pay=False) == [None, 1]
    assert thread_settings(1, two_may_pay=False) == [None]
    assert thread_settings(8, two_may_pay=True) == [None, 1, 2]


def test_steady_runs_do_not_end_and_log_as_often() -> None:
    before, after = config(), steady(config())
    assert after.log_every == before.log_every
    assert after.eval_every == 0
    assert not after.stop.on_solved
    assert after.algo == before.algo


def test_shorter_rollouts_for_short_windows() -> None:
    long = config("LunarLander-v3:zoo")  # 16 x 1024, batches of 64
    short = shorter(long)
    assert short.rollout_steps == 2048
    assert (short.algo.batch_size, short.algo.n_epochs, short.env.n_envs) == (64, 4, 16)
    assert shorter(config()) == config()


@pytest.mark.parametrize("every, expected", [(1.0, 8), (8.0, 8), (9.0, 16), (70.0, 128), (math.inf, 8)])
def test_steps_to_see_a_reward(every: float, expected: int) -> None:
    assert steps_to_see_a_reward(every) == expected


# What --tune leaves behind


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gymnast" / "tune.json"


def test_cache(cache: Path) -> None:
    assert cache_path() == cache
    assert find("CartPole-v1") is None
    tuned = Tuned(16, "sync", {8: "cartpole", 16: "sync"}, 1e4)
    keep("CartPole-v1", tuned)
    keep("Acrobot-v1", Tuned(4, "sync"))
    assert find("CartPole-v1") == tuned
    assert find("Taxi-v4") is None
    data = json.loads(cache.read_text())
    cache.write_text(json.dumps({"another machine": data[machine()]}))
    assert find("CartPole-v1") is None
    for broken in ("", "[]", json.dumps({machine(): {"CartPole-v1": {"n_envs": 4}}})):
        cache.write_text(broken)
        assert find("CartPole-v1") is None


def test_n_envs_auto(cache: Path) -> None:
    assert config("CartPole-v1:zoo", "env.n_envs=auto").env.n_envs == 8
    keep("CartPole-v1", Tuned(16, "sync"))
    resolved = configs.load("CartPole-v1:zoo", ["env.n_envs=auto"])
    assert resolved.config.env.n_envs == 16
    assert resolved.source("env.n_envs") == "--set: auto, measured on this machine"
    assert config("CartPole-v1:zoo").env.n_envs == 8  # nobody said auto: what is learned from stays the same
    with pytest.raises(configs.ConfigError, match="batch_size"):  # 16 x 32 = 512, and 300 does not divide it
        config("CartPole-v1:zoo", "env.n_envs=auto", "algo.batch_size=300")


def test_engine_auto(cache: Path) -> None:
    env = config().env
    usual, _ = choose_engine(env, 8)
    keep("CartPole-v1", Tuned(8, "sync", {8: "sync", 16: "no such engine"}))
    assert usual == "cartpole"
    assert choose_engine(env, 8)[0] == "sync"
    assert "gymnast speed --tune" in choose_engine(env, 8)[1]
    assert choose_engine(env, 8, use_tuned=False)[0] == "cartpole"
    assert choose_engine(env, 16)[0] == "cartpole"  # a word nobody knows, and one
    assert choose_engine(env, 32)[0] == "cartpole"  # that was not measured
    assert choose_engine(env.model_copy(update={"engine": "cartpole"}), 8)[0] == "cartpole"
    keep("CartPole-v1", Tuned(8, "cartpole", {8: "cartpole"}))
    wrapped = config("CartPole-v1", "env.wrappers=[{time_limit: {steps: 50}}]").env
    assert choose_engine(wrapped, 8)[0] == "sync"  # what cannot run it is not chosen


@pytest.mark.parametrize(
    "target, overrides",
    [("CartPole-v1:zoo", ()), ("CartPole-v1", ("algo.gamma=0.9", "env.kwargs.sutton_barto_reward=true"))],
)
def test_the_written_choice_extends_its_target(tmp_path: Path, target: str, overrides: tuple[str, ...]) -> None:
    resolved = configs.load(target, overrides)
    now = Candidate("cartpole", 8, 32, None, current=True, rates=[1.0])
    best = Candidate("sync", 16, 16, 2, rates=[2.0])
    path = tmp_path / "new" / "mine.yaml"
    write_choice(path, resolved.config, target, best, now)
    found = configs.load(str(path)).config
    assert configs.diff(resolved.config, found) == configs.diff(
        resolved.config, configs.override(resolved.config, best.overrides())
    )
    again = tmp_path / "again.yaml"  # a file may be tuned as well; what it extends is found from where it lies
    write_choice(again, found, str(path), now, best)
    assert configs.load(str(again)).config.env.engine == "cartpole"
    assert configs.load(str(again)).config.algo.gamma == found.algo.gamma


def test_the_written_choice_of_an_env_without_a_preset(tmp_path: Path) -> None:
    from gymnast.verbs.train import resolve_config

    resolved = resolve_config("CartPole-v0", [])
    assert resolved.generic
    path = tmp_path / "mine.yaml"
    best = Candidate("sync", 16, 128, None, rates=[2.0])
    write_choice(path, resolved.config, "CartPole-v0", best, best)
    found = resolve_config(str(path), []).config
    changed = {key for key, _, _ in configs.diff(resolved.config, found)}
    assert changed == {"env.n_envs", "env.engine", "algo.n_steps"}
