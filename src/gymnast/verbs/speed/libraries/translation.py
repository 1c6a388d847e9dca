"""What every rival's translation asks of a config: is it runnable there at all, and what is different there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError

if TYPE_CHECKING:
    from gymnast.config import RunConfig


def refuse(config: RunConfig, name: str, title: str, algos: Sequence[str]) -> None:
    """Says in a line why this cannot be compared, and what to change."""
    if config.algo.name not in algos:
        raise UserError(
            f"--against {name}: {title} has no {config.algo.name}. Use a variant with {' or '.join(algos)}."
        )
    if config.env.wrappers:
        names = ", ".join(spec.name for spec in config.env.wrappers)
        raise UserError(
            f"--against {name}: env.wrappers has {names}, which only Gymnast has. Add --set env.wrappers=[]."
        )
    if config.env.action_masks:
        raise UserError(f"--against {name}: {title} takes no action masks. Add --set env.action_masks=false.")


def at_start(config: RunConfig, names: Sequence[str], notes: list[str]) -> dict[str, float]:
    """Values that cannot be scheduled there."""
    schedules = config.algo.schedules()
    for name in names:
        if not schedules[name].is_constant:
            notes.append(f"algo.{name} stays at its start {schedules[name].value(0.0):g}: it cannot be scheduled there")
    return {name: schedules[name].value(0.0) for name in names}


def differences(config: RunConfig, there: Mapping[str, Any]) -> list[str]:
    """A line for each setting, by its dotted key, that has another value there whatever we say."""
    notes, settings = [], config.model_dump(mode="json")
    for key, value in there.items():
        ours: Any = settings
        for part in key.split("."):
            ours = ours[part]
        if ours != value:
            notes.append(f"{key} is {json.dumps(value)} there, not {json.dumps(ours)}")
    return notes
