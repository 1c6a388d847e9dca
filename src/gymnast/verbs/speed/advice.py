"""Which single changes are worth measuring for a config on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymnast.core.errors import UserError
from gymnast.core.machine import cores
from gymnast.core.registry import ENGINES

if TYPE_CHECKING:
    from gymnast.config import RunConfig

FACTORS = (2, 4)
FEWEST_STEPS = 8  # an env makes at least this many between two updates, or as many as it does now
SAME_LEARNING = "learning stays the same"
# Steps a second of all envs from which on processes of their own cannot pay: a message takes longer than a step
TOO_QUICK_FOR_PROCESSES = 20_000


@dataclass(frozen=True)
class Change:
    text: str  # n_envs 8 -> 32
    overrides: tuple[str, ...]  # --set
    note: str


def changes(config: RunConfig, engine: str, threads: int, env_rate: float) -> list[Change]:
    """More envs, another engine than this, another number of threads than this; each alone."""
    found = [change for factor in FACTORS if (change := more_envs(config, factor))]
    for other in engines_for(config, env_rate):
        if other != engine:
            found.append(Change(f"engine {engine} -> {other}", (f"env.engine={other}",), SAME_LEARNING))
    for count in thread_counts():
        if count != threads:
            found.append(Change(f"threads {threads} -> {count}", (f"train.threads={count}",), SAME_LEARNING))
    return found


def thread_counts() -> list[int]:
    return [count for count in (1, 2) if count <= cores()]


def more_envs(config: RunConfig, factor: int) -> Change | None:
    """That many times the envs, and as many samples an update as before; None where the rollout becomes too short."""
    n_envs = config.env.n_envs * factor
    n_steps = steps_for(config, n_envs)
    if n_steps is None:
        return None
    return Change(
        f"n_envs {config.env.n_envs} -> {n_envs}",
        (f"env.n_envs={n_envs}", f"algo.n_steps={n_steps}"),
        f"n_steps {config.algo.n_steps} -> {n_steps} keeps the {config.rollout_steps:,} samples an update; "
        "check that it still learns as well",
    )


def steps_for(config: RunConfig, n_envs: int, fewest: int = FEWEST_STEPS) -> int | None:
    """n_steps that makes the same rollout with another number of envs."""
    n_steps, left = divmod(config.rollout_steps, n_envs)
    return n_steps if not left and n_steps >= min(fewest, config.algo.n_steps) else None


def engines_for(config: RunConfig, env_rate: float, n_envs: int | None = None) -> list[str]:
    """Engines that can run this env, less those that cannot be faster."""
    from gymnast.envs.make import choose_engine

    able = []
    for name in ENGINES.names():
        if name == "process" and env_rate > TOO_QUICK_FOR_PROCESSES and config.env.engine != "process":
            continue
        try:
            choose_engine(config.env.model_copy(update={"engine": name}), n_envs or config.env.n_envs)
        except UserError:
            continue
        able.append(name)
    return able
