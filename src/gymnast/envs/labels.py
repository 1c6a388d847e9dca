"""What actions are called: by their suite, by the facts of their preset, by the env itself, or by numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from gymnast.config import load_facts
from gymnast.envs.suites import suite_of

if TYPE_CHECKING:
    from gymnast.config import EnvConfig


def own_labels(env: gym.Env[Any, Any]) -> list[str] | None:
    """What the env itself calls its actions; None: it does not say."""
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    return None if meanings is None else [str(name).lower() for name in meanings()]


def action_labels(cfg: EnvConfig, own: Sequence[str] | None, count: int, sizes: Sequence[int] | None) -> list[str]:
    """One for each choice, bit or number of an action, before any wrapper. `own`: the env's names. `sizes`: choices of
    each component; None: bits, or numbers."""
    facts = load_facts(cfg.id)
    for names in (suite_of(cfg.id).action_labels(cfg.kwargs), facts and facts.actions, own):
        if names and len(names) == count:
            return list(names)
    return numbered(count, sizes)


def numbered(count: int, sizes: Sequence[int] | None) -> list[str]:
    """Labels where there are no names."""
    if sizes is not None and len(sizes) > 1:
        return [f"{i}: {choice}" for i, size in enumerate(sizes) for choice in range(size)]
    return [f"action {i}" for i in range(count)]
