"""CartPole in a compiled loop of our own. Imports no compiler before it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymnast.envs.engines.base import Engine, obstacle_of_own_envs
from gymnast.envs.suites import find_spec
from gymnast.envs.types import VecEnv

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

IDS = ("CartPole-v0", "CartPole-v1")
KWARGS = ("sutton_barto_reward",)
PAYS_FROM = 4  # envs; as fast as plain envs one by one with 4, slower with fewer (measured on two cores)


class CartPoleEngine(Engine):
    priority = 30

    @classmethod
    def obstacle(cls, maker: EnvMaker) -> str | None:
        return obstacle_of_own_envs(maker, maker.config.id in IDS, ", ".join(IDS), KWARGS)

    @classmethod
    def pays(cls, maker: EnvMaker, n_envs: int) -> str | None:
        if n_envs < PAYS_FROM:
            return None
        return f"a compiled loop of our own steps {maker.config.id}, and nothing wraps it"

    @classmethod
    def open(cls, maker: EnvMaker, n_envs: int, threads: int | None) -> VecEnv:
        from gymnast.envs.engines.cartpole.vec import CartPoleVec

        cfg = maker.config
        limit = cfg.max_episode_steps or find_spec(cfg.id).max_episode_steps
        assert limit is not None  # both ids are registered with one
        return CartPoleVec(n_envs, name=cfg.id, max_episode_steps=limit, **cfg.kwargs)
