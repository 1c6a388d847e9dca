"""A run config as a command line of CleanRL's PPO scripts; and the settings they do not have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gymnast.verbs.speed.libraries.command import STEPS, Command
from gymnast.verbs.speed.libraries.sb3 import points
from gymnast.verbs.speed.libraries.translation import ELSEWHERE, at_start, differences, refuse

if TYPE_CHECKING:
    from gymnast.config import RunConfig

REPORT = re.compile(r"^SPS: \d+")  # one after each update
FIXED = ELSEWHERE | {
    "agent.ortho_init": True,
    "algo.optimizer_eps": 1e-5,
    "env.max_episode_steps": None,
    "env.reward.scale": 1.0,
}
MLP = {
    "agent.encoder": "mlp",
    "agent.hidden": [64, 64],
    "agent.activation": "tanh",
    "agent.shared": False,
    "env.kwargs": {},
    "env.reward.clip": None,
}
PLAIN = {"agent.normalize_obs": False, "agent.normalize_reward": False}
NORMALIZED = {
    "agent.normalize_obs": True,
    "agent.normalize_reward": True,
    "agent.clip_obs": 10.0,
    "agent.clip_reward": 10.0,
    "agent.std": "state_independent",
    "agent.log_std_init": 0.0,
    "agent.rescale_actions": False,
}
PIXELS = {"agent.encoder": "nature_cnn", "agent.hidden": [], "agent.shared": True, "env.reward.clip": 1.0}
FIXED_IN = {
    "ppo": FIXED | MLP | PLAIN,
    "ppo_continuous_action": FIXED | MLP | NORMALIZED,
    "ppo_atari": FIXED | PLAIN | PIXELS,
}


def translate(config: RunConfig) -> tuple[Command, list[str]]:
    refuse(config, "cleanrl", "CleanRL", ("ppo",))
    algo = config.algo
    assert algo.name == "ppo"
    script, env_id, notes = script_for(config)
    notes += differences(config, FIXED_IN[script])
    settings = hyperparameters(config, notes)
    anneal = settings.pop("anneal-lr")
    if algo.normalize_advantage == "rollout":
        notes.append("algo.normalize_advantage is per batch there, not per rollout")
    if algo.clip_range_vf not in (None, algo.clip_range):
        notes.append("algo.clip_range_vf is algo.clip_range there")
    arguments = {"env-id": env_id, "seed": config.train.seed, "total-timesteps": STEPS, **settings}
    if algo.target_kl is not None:
        notes.append("algo.target_kl is checked once an epoch there, not after every batch")
        arguments["target-kl"] = 1.5 * algo.target_kl  # the margin that ours has built in
    flags = {
        "anneal-lr": anneal,
        "norm-adv": algo.normalize_advantage != "off",
        "clip-vloss": algo.clip_range_vf is not None,
        "cuda": config.train.device != "cpu",
    }
    words = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
    words += [f"--{name}" if on else f"--no-{name}" for name, on in flags.items()]
    module = f"cleanrl.{script}"

    def progress(line: str, steps: int) -> int:
        return steps + config.rollout_steps if REPORT.match(line) else steps

    needs = (module, "torch", "gymnasium", "tyro", "tensorboard", *(("ale_py", "cv2") if script == "ppo_atari" else ()))
    return Command(("-m", module, *words), "cleanrl", needs, progress), notes


def hyperparameters(config: RunConfig, notes: list[str]) -> dict[str, Any]:
    """By the names of CleanRL's options; other libraries have taken over most of them."""
    algo = config.algo
    assert algo.name == "ppo"
    start = at_start(config, ("clip_range", "ent_coef", "vf_coef"), notes)
    rate = algo.learning_rate
    anneal = points(rate) == {"points": [[0.0, rate.value(0.0)], [1.0, 0.0]]}  # the one schedule there is
    if not anneal:
        at_start(config, ["learning_rate"], notes)
    return {
        "num-envs": config.env.n_envs,
        "num-steps": algo.n_steps,
        "num-minibatches": config.rollout_steps // algo.batch_size,
        "update-epochs": algo.n_epochs,
        "learning-rate": rate.value(0.0),
        "anneal-lr": anneal,
        "gamma": algo.gamma,
        "gae-lambda": algo.gae_lambda,
        "clip-coef": start["clip_range"],
        "ent-coef": start["ent_coef"],
        "vf-coef": 2 * start["vf_coef"],  # their value loss is half the squared error
        "max-grad-norm": algo.max_grad_norm,
    }


def script_for(config: RunConfig) -> tuple[str, str, list[str]]:
    """CleanRL has a script for each kind of task; which, the id it takes, and what its Atari task does otherwise."""
    from gymnasium.spaces import Box

    from gymnast.envs.make import make_vec
    from gymnast.envs.suites.atari.task import NAMESPACE, AtariTask, atari_task, is_atari

    if is_atari(config.env.id):
        ours, there = atari_task(config.env.kwargs).model_dump(), AtariTask(repeat_action_probability=0.0).model_dump()
        notes = [f"env.kwargs.{name} is {there[name]} there" for name in there if ours[name] != there[name]]
        game = config.env.id.removeprefix(NAMESPACE).removesuffix("-v5")
        return "ppo_atari", f"{game}NoFrameskip-v4", notes  # -v5 holds every action for four frames on its own
    env = make_vec(config.env, 1, "train")
    try:
        return ("ppo_continuous_action" if isinstance(env.action_space, Box) else "ppo"), config.env.id, []
    finally:
        env.close()
