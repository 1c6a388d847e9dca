"""What the registries have: an engine or a suite is held to the contract because it is registered."""

from __future__ import annotations

from typing import Any

import pytest

from gymnast.config import EnvConfig
from gymnast.config.files import preset_ids
from gymnast.core.registry import ENGINES
from gymnast.envs.make import EnvMaker
from gymnast.envs.suites import list_env_ids


def engines_for(env_id: str, **config: Any) -> list[str]:
    """The engines that can run an env."""
    maker = EnvMaker(EnvConfig(id=env_id, **config), "train")
    return [name for name in ENGINES.names() if ENGINES.get(name).obstacle(maker) is None]


def env_for(engine: str) -> str:
    """An env that an engine can run: CartPole, or the first that is found."""
    for env_id in ["CartPole-v1", *preset_ids(), *list_env_ids()]:
        if engine in engines_for(env_id):
            return env_id
    reason = ENGINES.get(engine).obstacle(EnvMaker(EnvConfig(id="CartPole-v1"), "train"))
    if "is not installed" in reason:
        pytest.skip(reason)
    raise AssertionError(f"no env was found that the engine {engine} can run: {reason}")
