"""Every `:zoo` variant, said in stable-baselines3's words, is what RL Baselines3 Zoo trains with."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecNormalize

from gymnast.config import list_presets, load
from gymnast.verbs.speed.libraries.sb3 import translate

ATARI = {
    "n_envs": 8,
    "n_timesteps": 1e7,
    "n_steps": 128,
    "n_epochs": 4,
    "batch_size": 256,
    "learning_rate": "lin_2.5e-4",
    "clip_range": "lin_0.1",
    "vf_coef": 0.5,
    "ent_coef": 0.01,
}
LANDER = {
    "n_envs": 16,
    "n_timesteps": 1e6,
    "n_steps": 1024,
    "batch_size": 64,
    "gae_lambda": 0.98,
    "gamma": 0.999,
    "n_epochs": 4,
    "ent_coef": 0.01,
}
SDE_A2C = {
    "normalize": True,
    "ent_coef": 0.0,
    "max_grad_norm": 0.5,
    "n_steps": 8,
    "gae_lambda": 0.9,
    "vf_coef": 0.4,
    "use_rms_prop": True,
    "normalize_advantage": False,
    "use_sde": True,
    "policy_kwargs": {"log_std_init": -2, "ortho_init": False},
}
MUJOCO = {"normalize": True, "n_envs": 1, "n_timesteps": 1e6}
WIDE = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": "ReLU",
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
# hyperparams/ppo.yml and hyperparams/a2c.yml of https://github.com/DLR-RM/rl-baselines3-zoo at commit 22e3ff2 (release
# 2.8.0), number for number. What they leave out has stable-baselines3's default.
ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1:zoo": {
        "n_envs": 8,
        "n_timesteps": 1e5,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": "lin_0.001",
        "clip_range": "lin_0.2",
    },
    "Acrobot-v1:zoo": {
        "normalize": True,
        "n_envs": 16,
        "n_timesteps": 1e6,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "MountainCar-v0:zoo": {
        "normalize": True,
        "n_envs": 16,
        "n_timesteps": 1e6,
        "n_steps": 16,
        "gae_lambda": 0.98,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "MountainCarContinuous-v0:zoo": {
        "normalize": True,
        "n_envs": 1,
        "n_timesteps": 20000,
        "batch_size": 256,
        "n_steps": 8,
        "gamma": 0.9999,
        "learning_rate": 7.77e-05,
        "ent_coef": 0.00429,
        "clip_range": 0.1,
        "n_epochs": 10,
        "gae_lambda": 0.9,
        "max_grad_norm": 5,
        "vf_coef": 0.19,
        "use_sde": True,
        "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
    },
    "Pendulum-v1:zoo": {
        "n_envs": 4,
        "n_timesteps": 1e5,
        "n_steps": 1024,
        "gae_lambda": 0.95,
        "gamma": 0.9,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 1e-3,
        "clip_range": 0.2,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
    "LunarLander-v3:zoo": LANDER,
    "LunarLanderContinuous-v3:zoo": LANDER,
    "BipedalWalker-v3:zoo": {
        "normalize": True,
        "n_envs": 32,
        "n_timesteps": 5e6,
        "n_steps": 2048,
        "batch_size": 64,
        "gae_lambda": 0.95,
        "gamma": 0.999,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 3e-4,
        "clip_range": 0.18,
    },
    # of -v4, and of -v2 where the zoo has no -v4
    "InvertedPendulum-v5:zoo": MUJOCO
    | {
        "batch_size": 64,
        "n_steps": 32,
        "gamma": 0.999,
        "learning_rate": 0.000222425,
        "ent_coef": 1.37976e-07,
        "clip_range": 0.4,
        "n_epochs": 5,
        "gae_lambda": 0.9,
        "max_grad_norm": 0.3,
        "vf_coef": 0.19816,
    },
    "Hopper-v5:zoo": MUJOCO
    | {
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.999,
        "learning_rate": 9.80828e-05,
        "ent_coef": 0.00229519,
        "clip_range": 0.2,
        "n_epochs": 5,
        "gae_lambda": 0.99,
        "max_grad_norm": 0.7,
        "vf_coef": 0.835671,
        "policy_kwargs": WIDE,
    },
    "Walker2d-v5:zoo": MUJOCO
    | {
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.99,
        "learning_rate": 5.05041e-05,
        "ent_coef": 0.000585045,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.95,
        "max_grad_norm": 1,
        "vf_coef": 0.871923,
    },
    "HalfCheetah-v5:zoo": MUJOCO
    | {
        "batch_size": 64,
        "n_steps": 512,
        "gamma": 0.98,
        "learning_rate": 2.0633e-05,
        "ent_coef": 0.000401762,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.92,
        "max_grad_norm": 0.8,
        "vf_coef": 0.58096,
        "policy_kwargs": WIDE,
    },
    "Swimmer-v5:zoo": MUJOCO
    | {
        "gamma": 0.9999,
        "n_envs": 4,
        "n_steps": 1024,
        "batch_size": 256,
        "learning_rate": 6e-4,
        "gae_lambda": 0.98,
    },
    "Ant-v5:zoo": MUJOCO,
    "Reacher-v5:zoo": MUJOCO
    | {
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.9,
        "learning_rate": 0.000104019,
        "ent_coef": 7.52585e-08,
        "clip_range": 0.3,
        "n_epochs": 5,
        "gae_lambda": 1.0,
        "max_grad_norm": 0.9,
        "vf_coef": 0.950368,
    },
    "ALE/Pong-v5:zoo": ATARI,
    "ALE/Breakout-v5:zoo": ATARI,
    "CartPole-v1:zoo-a2c": {"n_envs": 8, "n_timesteps": 5e5, "ent_coef": 0.0},
    "Acrobot-v1:zoo-a2c": {"normalize": True, "n_envs": 16, "n_timesteps": 5e5, "ent_coef": 0.0},
    "MountainCar-v0:zoo-a2c": {"normalize": True, "n_envs": 16, "n_timesteps": 1e6, "ent_coef": 0.0},
    "MountainCarContinuous-v0:zoo-a2c": {
        "normalize": True,
        "n_envs": 4,
        "n_steps": 100,
        "n_timesteps": 1e5,
        "ent_coef": 0.0,
        "use_sde": True,
        "sde_sample_freq": 16,
        "policy_kwargs": {"log_std_init": 0.0, "ortho_init": False},
    },
    "Pendulum-v1:zoo-a2c": SDE_A2C | {"n_envs": 8, "n_timesteps": 1e6, "gamma": 0.9, "learning_rate": "lin_7e-4"},
    "LunarLander-v3:zoo-a2c": {
        "n_envs": 8,
        "n_timesteps": 2e5,
        "gamma": 0.995,
        "n_steps": 5,
        "learning_rate": "lin_0.00083",
        "ent_coef": 0.00001,
    },
    "LunarLanderContinuous-v3:zoo-a2c": SDE_A2C
    | {"n_envs": 4, "n_timesteps": 5e6, "gamma": 0.99, "learning_rate": "lin_7e-4"},
    "BipedalWalker-v3:zoo-a2c": SDE_A2C
    | {"n_envs": 16, "n_timesteps": 5e6, "gamma": 0.99, "learning_rate": "lin_0.00096"},
}
NOT_FOR_THE_MODEL = {"n_envs", "n_timesteps", "normalize", "policy_kwargs"}
NO_SETTING = {"self", "policy", "env", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model"}
NO_SETTING |= {"rollout_buffer_class", "rollout_buffer_kwargs", "stats_window_size", "policy_kwargs"}


def defaults(function: Any, names: set[str] | None = None) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.items()
    return {name: p.default for name, p in parameters if (name in names if names else name not in NO_SETTING)}


def scheduled(value: Any) -> Any:
    """The zoo's "lin_x" is x at the start and 0 at the end."""
    if isinstance(value, str):
        return {"points": [[0.0, float(value.removeprefix("lin_"))], [1.0, 0.0]]}
    return value


def test_every_zoo_variant_is_checked() -> None:
    variants = {
        f"{preset.id}:{name}" for preset in list_presets() for name in preset.variants if name.startswith("zoo")
    }
    assert variants == set(ZOO)


@pytest.mark.parametrize("target", ZOO)
def test_zoo_variants_are_rl_zoos_settings(target: str) -> None:
    zoo = ZOO[target]
    algorithm = sb3.A2C if target.endswith("a2c") else sb3.PPO
    job, notes = translate(load(target).config)
    assert notes == [], "nothing is left out"
    assert job["algorithm"] == algorithm.__name__
    assert job["total_timesteps"] == zoo["n_timesteps"]
    assert job["env"]["n_envs"] == zoo["n_envs"]
    if not target.startswith("ALE/"):  # games have nothing to rescale
        assert job["env"]["rescale_actions"] is False

    expected = defaults(algorithm) | {k: scheduled(v) for k, v in zoo.items() if k not in NOT_FOR_THE_MODEL}
    if "batch_size" in expected:  # of a larger batch, a rollout fills what it has
        expected["batch_size"] = min(expected["batch_size"], zoo["n_envs"] * expected["n_steps"])
    sent = {name: value for name, value in job["arguments"].items() if name != "device"}
    assert {"use_sde": False, "sde_sample_freq": -1} | sent == expected

    if zoo.get("normalize"):
        normalize = defaults(VecNormalize, {"norm_obs", "norm_reward", "clip_obs", "clip_reward"})
        assert job["env"]["normalize"] == normalize | {"gamma": expected["gamma"]}
    else:
        assert job["env"]["normalize"] is None

    policy = defaults(ActorCriticPolicy, {"ortho_init", "log_std_init", "activation_fn"})
    policy["activation_fn"] = policy["activation_fn"].__name__
    layers = [] if job["policy"] == "CnnPolicy" else [64, 64]  # what net_arch=None means there
    policy |= {"net_arch": {"pi": layers, "vf": layers}} | zoo.get("policy_kwargs", {})
    assert {name: job["policy_kwargs"][name] for name in policy} == policy


@pytest.mark.parametrize("target", ["MountainCarContinuous-v0:zoo", "Pendulum-v1:zoo", "Pendulum-v1:zoo-a2c"])
def test_stable_baselines3_trains_with_them(target: str) -> None:
    """The job is one that it takes, and its model is ours: as many parameters, the same first spread."""
    from gymnast.training.build import build
    from gymnast.verbs.speed.libraries.runners.run_sb3 import make_model

    config = load(target, ["eval.every=0"]).config
    model = make_model(translate(config)[0], seed=0)
    session = build(config, None)
    try:
        count = sum(parameter.numel() for parameter in session.agent.parameters())
        assert sum(parameter.numel() for parameter in model.policy.parameters()) == count
        assert torch.equal(model.policy.log_std, session.agent.head.log_std)  # type: ignore[arg-type]
        assert model.use_sde
        assert model.sde_sample_freq == (config.agent.sde_sample_freq or -1)
        model.learn(config.rollout_steps)
    finally:
        session.close()
