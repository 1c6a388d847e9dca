"""A vector of envs for scripts, in the shape of stable-baselines3's: one call steps all, ended episodes begin anew."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast import config as configs
from gymnast.api.settings import BUDGET_OPEN
from gymnast.api.sources import EnvSource, Spaces, source_of
from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs import types
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.make import make_vec
from gymnast.envs.suites import make as make_one


class VecEnv:
    """`reset() -> obs`, `step(actions) -> obs, rewards, dones, infos`; arrays with one row an env.

    Observations and actions are as the env itself declares them. infos[i] is filled where an episode ended:
    `terminal_observation`, `TimeLimit.truncated`, `episode` ({"r": return, "l": length}), and the plain values of the
    env's own last info.
    """

    def __init__(self, source: EnvSource, spaces: Spaces, num_envs: int, open_engine: Callable[[], types.VecEnv]):
        self.source, self.num_envs = source, num_envs
        self.observation_space, self.action_space = spaces.observation, spaces.action
        self.used = False  # whether anybody but training has moved the envs
        self._spaces, self._open = spaces, open_engine
        self._engine: types.VecEnv | None = None
        self._seed, self._resets = 0, 0
        self._mask: NDArray[np.bool_] | None = None

    @property
    def engine(self) -> types.VecEnv:
        """What steps the envs. Whoever asks for it is about to move them."""
        self.used = True
        if self._engine is None:
            self._engine = self._open()
        return self._engine

    def seed(self, seed: int) -> None:
        """The episodes from the next reset on follow from this number."""
        self._seed, self._resets = seed, 0

    def reset(self) -> Any:
        now = self.engine.reset(derive_seed(self._seed, "vec env", self._resets))
        self._resets += 1
        self._mask = now.mask
        return self._spaces.layout.to_raw(now.obs)

    def step(self, actions: Any) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        taken = np.asarray(actions)
        if len(taken) != self.num_envs:
            raise UserError(f"step() takes {self.num_envs} actions, one an env; got {len(taken)}.")
        now = self.engine.step(taken - self._spaces.actions.start if np.any(self._spaces.actions.start) else taken)
        self._mask = now.mask
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        dones = now.terminated | now.truncated
        final = self._spaces.layout.to_raw(now.final_obs) if dones.any() else None
        for index in np.flatnonzero(dones).tolist():  # also where only a life was lost: no episode's score there
            infos[index] = {
                "terminal_observation": _row(final, index),
                "TimeLimit.truncated": bool(now.truncated[index]),
            }
        for record in now.episodes:
            infos[record.env] = (
                record.info | infos[record.env] | {"episode": {"r": record.raw_return, "l": record.length}}
            )
        return self._spaces.layout.to_raw(now.obs), now.reward.copy(), dones, infos

    @property
    def action_masks(self) -> NDArray[np.bool_] | None:
        """Actions that may be taken next, [envs, actions]; None where the env gives no masks."""
        return None if self._mask is None else self._mask.copy()

    def render(self, mode: str | None = None) -> Any:
        """The first env's picture, where it was made with a render_mode and lives in this process; else None.

        `mode` is accepted for scripts' sake: how an env is shown is decided where it is made.
        """
        if not isinstance(self._engine, SyncEngine) or self._engine.envs[0].render_mode is None:
            return None
        return self._engine.envs[0].render()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()


def _row(observation: Any, index: int) -> Any:
    if isinstance(observation, dict):
        return {key: _row(value, index) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_row(value, index) for value in observation)
    return observation[index]


def _wrapped(
    make: Callable[[], gym.Env[Any, Any]], wrapper: Callable[..., gym.Env[Any, Any]], kwargs: dict[str, Any]
) -> gym.Env[Any, Any]:
    return wrapper(make(), **kwargs)


def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    env_kwargs: dict[str, Any] | None = None,
    wrapper_class: Callable[..., gym.Env[Any, Any]] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
    engine: str = "auto",
) -> VecEnv:
    """`n_envs` copies of an env, by id or from a class or function, each optionally wrapped.

    They are for stepping by hand; a model that is given them makes envs of its own in the same way, so that neither
    disturbs the other. `engine`: auto or a name, as `env.engine` in a config.
    """
    kwargs = env_kwargs or {}
    settings: dict[str, Any] = {"n_envs": n_envs, "engine": engine}
    if isinstance(env_id, str) and wrapper_class is None:
        source = EnvSource(env_id, settings=settings | {"kwargs": kwargs})
    else:
        make: Callable[[], gym.Env[Any, Any]]
        if isinstance(env_id, str):
            make = functools.partial(make_one, env_id, kwargs)
        else:
            make = functools.partial(env_id, **kwargs) if kwargs else env_id
        if wrapper_class is not None:
            make = functools.partial(_wrapped, make, wrapper_class, wrapper_kwargs or {})
        made = source_of(make)
        source = EnvSource(made.name, made.factory, settings=settings)
    env = configs.validate(
        {"env": {"id": source.name, **source.settings}, "train": {"total_timesteps": BUDGET_OPEN}}
    ).env
    vec = VecEnv(source, Spaces.of(env, source), n_envs, lambda: make_vec(env, n_envs, "play", source.factory))
    vec.seed(0 if seed is None else seed)
    return vec
