"""What every translation asks of a config: can the library run it at all, and what is different there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError

if TYPE_CHECKING:
    from gymnast.config import RunConfig

# What no other library has: there, these are always so
ELSEWHERE = {
    "agent.layer_norm": False,
    "agent.batch_norm": False,
    "agent.normalize_pictures": False,
    "agent.squash": False,
    "algo.value_loss": "mse",
    "algo.reset_optimizer_on_lr_jump": None,
    "agent.critic_hidden": None,
    "algo.critic_learning_rate": None,
    "algo.desired_kl": None,
    "algo.betas": [0.9, 0.999],
    "algo.weight_decay": 0.0,
}


def refuse(config: RunConfig, name: str, title: str, algos: Sequence[str]) -> None:
    """Says in a line why this cannot be compared, and what to change."""
    env, problem = config.env, ""
    if config.algo.name not in algos:
        problem = f"{title} has no {config.algo.name}. Use a variant with {' or '.join(algos)}."
    elif config.tasks or config.stages:
        problem = "only Gymnast has tasks and stages. Use another variant."
    elif config.agent.track:
        problem = "only Gymnast finds objects in pictures (agent.track). Use another variant, like :zoo."
    elif env.wrappers:
        names = ", ".join(spec.name for spec in env.wrappers)
        problem = f"env.wrappers has {names}, which only Gymnast has. Add --set env.wrappers=[]."
    elif env.action_masks:
        problem = f"{title} takes no action masks. Add --set env.action_masks=false."
    elif env.forbid:
        problem = f"{title} takes all actions of the env. Add --set env.forbid=[]."
    elif shaped := [key for key, weight in env.shaping.items() if weight]:
        without = " ".join(f"--set env.shaping.{key}=0" for key in shaped)
        problem = f"env.shaping has {', '.join(shaped)}, which only Gymnast has. Add {without}."
    elif config.agent.memory is not None:
        problem = (
            f"agent.memory is {config.agent.memory}, and {title} is compared without. Add --set agent.memory=null."
        )
    if problem:
        raise UserError(f"--against {name}: {problem}")


def at_start(config: RunConfig, names: Sequence[str], notes: list[str]) -> dict[str, float]:
    """Values that cannot be scheduled there."""
    schedules = config.algo.schedules()
    for name in names:
        if not schedules[name].is_constant:
            notes.append(f"algo.{name} stays at its start {schedules[name].value(0.0):g}: it cannot be scheduled there")
    return {name: schedules[name].value(0.0) for name in names}


def differences(config: RunConfig, there: Mapping[str, Any]) -> list[str]:
    """A line for each setting, by its dotted key, that has another value there whatever we say; not every algorithm has
    all of them."""
    notes, settings = [], config.model_dump(mode="json")
    for key, value in there.items():
        ours: Any = settings
        for part in key.split("."):
            ours = ours.get(part, value)
        if ours != value:
            notes.append(f"{key} is {json.dumps(value)} there, not {json.dumps(ours)}")
    return notes
