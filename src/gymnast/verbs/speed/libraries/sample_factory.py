"""A run config as a command line of Sample Factory; and the settings it does not have."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from gymnast.core.errors import UserError
from gymnast.core.machine import cores
from gymnast.verbs.speed.libraries.command import RUNNERS, STEPS, Command
from gymnast.verbs.speed.libraries.translation import ELSEWHERE, at_start, differences, refuse

if TYPE_CHECKING:
    from gymnast.config import RunConfig

REPORT = re.compile(r"Total num frames: (\d+)")  # every five seconds
FIXED = ELSEWHERE | {
    "agent.encoder": "mlp",
    "agent.rescale_actions": False,
    "algo.normalize_advantage": "batch",
    "algo.target_kl": None,
    "env.kwargs": {},
    "env.max_episode_steps": None,
}
SCHEDULED = ("learning_rate", "clip_range", "ent_coef", "vf_coef")
NO_LIMIT = 1e9  # of what must have one there
ALWAYS = (
    "it collects with the policy of an update before while it learns (its async_rl)",
    "it reports every 5 s: a window lasts that long at least, and a first update is seen only then",
)


def translate(config: RunConfig) -> tuple[Command, list[str]]:
    from gymnast.envs.suites.atari.task import is_atari

    refuse(config, "sample-factory", "Sample Factory", ("ppo",))
    if is_atari(config.env.id):
        raise UserError(f"--against sample-factory: {config.env.id} is not translated for it. Leave it out.")
    algo, agent, reward = config.algo, config.agent, config.env.reward
    assert algo.name == "ppo"
    notes = [*ALWAYS, *differences(config, FIXED)]
    start = at_start(config, SCHEDULED, notes)
    if agent.activation not in ("elu", "relu", "tanh"):
        notes.append(f"agent.activation is tanh there, not {agent.activation}")
    if agent.normalize_reward:
        notes.append("agent.normalize_reward: it scales returns, not rewards")
    rollout = math.gcd(algo.n_steps, algo.batch_size)
    if rollout != algo.n_steps:
        notes.append(f"algo.n_steps is {rollout} there: a batch is made of whole rollouts")
    workers = max(n for n in range(1, cores() + 1) if config.env.n_envs % n == 0)
    each = config.env.n_envs // workers
    arguments = {
        "env": config.env.id,
        "seed": config.train.seed,
        "train_for_env_steps": STEPS,
        "experiment": "speed",
        "train_dir": ".",
        "restart_behavior": "overwrite",
        "use_rnn": False,
        "num_workers": workers,
        "num_envs_per_worker": each,
        "worker_num_splits": 1 if each % 2 else 2,
        "rollout": rollout,
        "batch_size": algo.batch_size,
        "num_batches_per_epoch": config.rollout_steps // algo.batch_size,
        "num_epochs": algo.n_epochs,
        "shuffle_minibatches": True,
        "learning_rate": start["learning_rate"],
        "gamma": algo.gamma,
        "gae_lambda": algo.gae_lambda,
        "ppo_clip_ratio": start["clip_range"],
        "ppo_clip_value": NO_LIMIT if algo.clip_range_vf is None else algo.clip_range_vf.value(0.0),
        "exploration_loss_coeff": start["ent_coef"],
        "value_loss_coeff": start["vf_coef"],
        "max_grad_norm": algo.max_grad_norm,
        "adam_eps": algo.optimizer_eps,
        "value_bootstrap": True,
        "nonlinearity": agent.activation if agent.activation in ("elu", "relu", "tanh") else "tanh",
        "actor_critic_share_weights": agent.shared,
        "policy_initialization": "orthogonal" if agent.ortho_init else "torch_default",
        "adaptive_stddev": agent.std == "state_dependent",
        "initial_stddev": math.exp(agent.log_std_init),
        "normalize_input": agent.normalize_obs,
        "normalize_returns": agent.normalize_reward,
        "reward_scale": reward.scale,
        "reward_clip": NO_LIMIT if reward.clip is None else reward.clip,
    }
    if config.train.device != "auto":
        arguments["device"] = "gpu" if config.train.device == "cuda" else "cpu"
    words = [f"--{name}={value}" for name, value in arguments.items()]
    words += ["--encoder_mlp_layers", *map(str, agent.hidden)]
    runner = str(RUNNERS / "run_sample_factory.py")
    return Command((runner, *words), "sample-factory", ("sample_factory", "torch", "gymnasium"), progress), notes


def progress(line: str, steps: int) -> int:
    found = REPORT.search(line)
    return int(found[1]) if found else steps
