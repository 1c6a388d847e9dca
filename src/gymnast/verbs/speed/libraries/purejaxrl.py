"""A run config as the settings of PureJaxRL's `ppo.py`; settings it does not have. JAX and its envs are in its own
interpreter, its code in a checkout that the user names."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from gymnast.core.errors import UserError
from gymnast.verbs.speed.libraries.cleanrl import FIXED_IN, hyperparameters
from gymnast.verbs.speed.libraries.command import RUNNERS, STEPS, Command
from gymnast.verbs.speed.libraries.translation import differences, refuse

if TYPE_CHECKING:
    from gymnast.config import RunConfig

REPORT = re.compile(r"^steps (\d+)$")
ENVS = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")  # those of gymnax that are Gymnasium's too and have few actions
OTHER_NAMES = {"learning-rate": "LR", "clip-coef": "CLIP_EPS"}  # than CleanRL's
FIXED = FIXED_IN["ppo"] | {"algo.normalize_advantage": "batch", "algo.target_kl": None}  # written after CleanRL's
ALWAYS = (
    "the env is gymnax's, written in JAX; where its time limit ends an episode, it learns as if the task had ended",
    "a whole training is one compiled program, run again and again: compiling is not in its rate, and its first update "
    "cannot be seen",
    "threads are the cores it may use: XLA has no such setting",
)


def translate(config: RunConfig) -> tuple[Command, list[str]]:
    refuse(config, "purejaxrl", "PureJaxRL", ("ppo",))
    if config.env.id not in ENVS:
        raise UserError(
            f"--against purejaxrl: it trains on envs written in JAX, and {config.env.id} is none that it has. "
            f"Use {', '.join(ENVS)}, or leave it out."
        )
    algo = config.algo
    assert algo.name == "ppo"
    activation = config.agent.activation if config.agent.activation == "relu" else "tanh"
    notes = [*ALWAYS, *differences(config, FIXED | {"agent.activation": activation})]
    settings = {
        OTHER_NAMES.get(name, name.upper().replace("-", "_")): value
        for name, value in hyperparameters(config, notes).items()
    }
    if algo.clip_range_vf != algo.clip_range:
        notes.append("algo.clip_range_vf is algo.clip_range there")
    settings |= {"ENV_NAME": config.env.id, "ACTIVATION": activation}
    arguments = (json.dumps(settings), str(config.train.seed), config.train.device, STEPS)
    needs = ("jax", "flax", "optax", "distrax", "gymnax", "brax", "navix", "ppo", "wrappers")
    return Command((str(RUNNERS / "run_purejaxrl.py"), *arguments), "purejaxrl", needs, progress), notes


def progress(line: str, steps: int) -> int:
    found = REPORT.match(line)
    return int(found[1]) if found else steps
