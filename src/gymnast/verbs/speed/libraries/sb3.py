"""A run config in stable-baselines3's words: the same env, network and hyperparameters; settings it does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnast.core.text import setting
from gymnast.verbs.speed.libraries.translation import ELSEWHERE, at_start, differences, refuse

if TYPE_CHECKING:
    from gymnast.config import RunConfig
    from gymnast.core.schedule import Schedule

ACTIVATIONS = {
    "tanh": "Tanh",
    "relu": "ReLU",
    "elu": "ELU",
    "gelu": "GELU",
    "silu": "SiLU",
    "leaky_relu": "LeakyReLU",
}
CNN = "nature_cnn"
CURVE = 256  # pieces a schedule that is not linear is sent in
ONLY_NUMBERS = ("ent_coef", "vf_coef")  # stable-baselines3 cannot schedule these
SHARED_NAMES = ("n_steps", "gamma", "gae_lambda", "max_grad_norm")


def translate(config: RunConfig) -> tuple[dict[str, Any], list[str]]:
    """The job for `run_sb3.py` as JSON, and each setting it had to leave out, in words."""
    algo = config.algo
    refuse(config, "sb3", "stable-baselines3", ("ppo", "a2c"))
    assert algo.name != "reinforce"
    notes: list[str] = []
    arguments: dict[str, Any] = {name: getattr(algo, name) for name in SHARED_NAMES}
    arguments |= {"learning_rate": points(algo.learning_rate), "device": config.train.device}
    arguments |= at_start(config, ONLY_NUMBERS, notes)
    arguments["normalize_advantage"] = algo.normalize_advantage != "off"
    if algo.name == "ppo" and algo.normalize_advantage == "rollout":
        notes.append("algo.normalize_advantage is per batch there, not per rollout")
    notes += differences(config, ELSEWHERE | {"agent.discrete_encoding": "one_hot"})
    network = policy_arguments(config, notes)
    if config.agent.std == "sde":
        arguments |= {"use_sde": True, "sde_sample_freq": config.agent.sde_sample_freq or -1}
        network["use_expln"] = config.agent.sde_expln
    if algo.name == "ppo":
        arguments |= {
            "batch_size": algo.batch_size,
            "n_epochs": algo.n_epochs,
            "clip_range": points(algo.clip_range),
            "clip_range_vf": None if algo.clip_range_vf is None else points(algo.clip_range_vf),
            "target_kl": algo.target_kl,
        }
        network["optimizer_kwargs"] = {"eps": algo.optimizer_eps}
    elif algo.optimizer == "rmsprop":
        arguments |= {"use_rms_prop": True, "rms_prop_eps": algo.optimizer_eps}
    else:
        arguments["use_rms_prop"] = False
        network["optimizer_kwargs"] = {"eps": algo.optimizer_eps}
    job = {
        "algorithm": algo.name.upper(),
        "policy": "CnnPolicy" if config.agent.encoder == CNN else "MlpPolicy",
        "policy_kwargs": network,
        "arguments": arguments,
        "env": env_settings(config, notes),
        "total_timesteps": config.train.total_timesteps,
        "seed": config.train.seed,
        "log_interval": max(1, config.log_every // config.rollout_steps),  # in updates: rows as often as ours
    }
    return job, notes


def policy_arguments(config: RunConfig, notes: list[str]) -> dict[str, Any]:
    agent = config.agent
    if agent.std == "state_dependent":
        notes += differences(config, {"agent.std": "state_independent"})
    if agent.shared and agent.hidden:
        notes.append("agent.shared: actor and critic have the hidden layers each for themselves there")
    hidden = list(agent.hidden)
    arguments = {
        "net_arch": {"pi": hidden, "vf": hidden},
        "activation_fn": ACTIVATIONS[agent.activation],
        "ortho_init": agent.ortho_init,
        "log_std_init": agent.log_std_init,
    }
    return arguments | ({"share_features_extractor": agent.shared} if agent.encoder == CNN else {})


def env_settings(config: RunConfig, notes: list[str]) -> dict[str, Any]:
    env, agent = config.env, config.agent
    normalize = None
    if agent.normalize_obs or agent.normalize_reward:
        normalize = {
            "norm_obs": agent.normalize_obs,
            "norm_reward": agent.normalize_reward,
            "clip_obs": agent.clip_obs,
            "clip_reward": agent.clip_reward,
            "gamma": config.algo.gamma,
        }
    settings = {
        "id": env.id,
        "kwargs": dict(env.kwargs),
        "max_episode_steps": env.max_episode_steps,
        "n_envs": env.n_envs,
        "rescale_actions": agent.rescale_actions,
        "reward_scale": env.reward.scale,
        "reward_clip": env.reward.clip,
        "normalize": normalize,
        "atari": None,
        "frame_stack": 0,
    }
    from gymnast.envs.suites.atari.task import atari_task, is_atari

    if not is_atari(env.id):
        return settings
    task = atari_task(env.kwargs)
    fixed = {"max_pool": True, "fire_reset": True, "observation": "grey", "actions": None, "episodic_points": False}
    fixed |= {"crop_rows": None, "crop_columns": None, "screen_size": task.sides[1]}
    notes += [f"env.kwargs.{key} is {setting(fixed[key])} there" for key in fixed if getattr(task, key) != fixed[key]]
    clips_to_sign = env.reward.clip == 1.0 and env.reward.scale == 1.0  # whole rewards: the same as their sign
    return settings | {
        "kwargs": {
            "frameskip": 1,  # the wrapper skips
            "repeat_action_probability": task.repeat_action_probability,
            "full_action_space": task.full_action_space,
        },
        "reward_clip": None if clips_to_sign else env.reward.clip,
        "atari": {
            "noop_max": task.noop_max,
            "frame_skip": task.frame_skip,
            "screen_size": task.sides[1],
            "terminal_on_life_loss": task.episodic_life,
            "clip_reward": clips_to_sign,
        },
        "frame_stack": task.stack,
    }


def points(schedule: Schedule) -> float | dict[str, Any]:
    """A number where it is one, else points to join by lines."""
    if schedule.is_constant:
        return schedule.value(0.0)
    if schedule.shape == "linear" and schedule.floor is None:
        return {"points": [list(knot) for knot in schedule.knots]}
    return {"points": [[i / CURVE, schedule.value(i / CURVE)] for i in range(CURVE + 1)]}
