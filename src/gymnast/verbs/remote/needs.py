"""What a run reserves where it is trained."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gymnast.jobs.worker import Resources

if TYPE_CHECKING:
    from gymnast.config import RunConfig


def cores_of(config: RunConfig) -> int:
    """What a run keeps busy: its threads or, without a number, a core an env where engine or network use several."""
    from gymnast.envs.make import choose_engine
    from gymnast.runs.saved_agent import is_large

    if config.train.threads is not None:
        return config.train.threads
    engine = "process" if config.tasks else choose_engine(config.in_stage(0).env, config.env.n_envs)[0]
    return config.env.n_envs if is_large(config) or engine in ("process", "envpool", "ale") else 1


def resources_of(config: RunConfig) -> Resources:
    asked = config.train.resources
    gpu = float(config.train.device == "cuda") if asked.gpu is None else asked.gpu
    return Resources(gpu, asked.memory_bytes, asked.labels)


def needs_of(config: RunConfig) -> dict[str, Any]:
    """Both, as JSON."""
    return {"cores": cores_of(config), "resources": asdict(resources_of(config))}
