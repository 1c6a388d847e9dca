"""Vectors of envs by stable-baselines3's call."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from gymnast import config as configs
from gymnast.api.arguments import WrongKeyword, argument_errors
from gymnast.api.settings import BUDGET_OPEN
from gymnast.api.sources import EnvSource, Spaces, source_of
from gymnast.api.vec_env import VecEnv
from gymnast.config import EnvConfig
from gymnast.core.errors import UserError, package_problem
from gymnast.envs import types
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.make import choose_engine, make_vec
from gymnast.envs.suites import find_spec
from gymnast.envs.suites import make as make_one
from gymnast.envs.suites.base import draws

MakeEnv = Callable[[], gym.Env[Any, Any]]
SB3 = "stable_baselines3"


@argument_errors
def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | os.PathLike[str] | None = None,
    wrapper_class: Callable[..., gym.Env[Any, Any]] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: Callable[..., Any] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
    engine: str = "auto",
) -> Any:
    """`n_envs` copies of an env, by id or from a class or function, each optionally wrapped.

    They are for stepping by hand; a model that is given them makes envs of its own in the same way, so that neither
    disturbs the other. `engine`: auto or a name, as `env.engine` in a config.

    A `vec_env_cls` (stable-baselines3's SubprocVecEnv, say) gives an object of that class, and a model trains on that
    very object. So do `monitor_dir` and `monitor_kwargs`, which are for stable-baselines3's Monitor: its files are
    numbered from `start_index`. Without them episodes are recorded all the same.
    """
    kwargs, limit = dict(env_kwargs or {}), None
    make: MakeEnv
    if isinstance(env_id, str):
        limit = kwargs.pop("max_episode_steps", None)  # gymnasium.make's own
        make = functools.partial(make_one, env_id, kwargs, limit)
    else:
        make = functools.partial(env_id, **kwargs) if kwargs else env_id
    if vec_env_cls is not None or monitor_dir is not None or monitor_kwargs is not None:
        if engine != "auto":
            raise UserError(f"make_vec_env(engine={engine!r}): a vec_env_cls steps its envs itself; leave one out.")
        monitor = None if monitor_dir is None and monitor_kwargs is None and not _is_theirs(vec_env_cls) else _monitor()
        if monitor_dir is not None:
            os.makedirs(monitor_dir, exist_ok=True)
        makers = []
        for rank in range(start_index, start_index + n_envs):
            path = None if monitor_dir is None else os.path.join(monitor_dir, str(rank))
            watched = make if monitor is None else _around(make, monitor, {"filename": path} | (monitor_kwargs or {}))
            makers.append(_around(watched, wrapper_class, wrapper_kwargs))
        vector = (vec_env_cls or importlib.import_module(f"{SB3}.common.vec_env").DummyVecEnv)(
            makers, **(vec_env_kwargs or {})
        )
        vector.seed(seed)
        return vector
    if vec_env_kwargs:
        raise WrongKeyword("make_vec_env(vec_env_kwargs=...): are for a vec_env_cls, and none is given.")
    settings: dict[str, Any] = {"n_envs": n_envs, "engine": engine}
    if isinstance(env_id, str) and wrapper_class is None:
        return _open(EnvSource(env_id, settings=settings | {"kwargs": kwargs, "max_episode_steps": limit}), seed)
    made = source_of(_around(make, wrapper_class, wrapper_kwargs))
    return _open(EnvSource(made.name, made.factory, settings=settings), seed)


def _open(source: EnvSource, seed: int | None) -> VecEnv:
    env = configs.validate(
        {"env": {"id": source.name, **source.settings}, "train": {"total_timesteps": BUDGET_OPEN}}
    ).env

    def open_engine(as_objects: bool) -> types.VecEnv:
        name = choose_engine(env, env.n_envs, source.factory, "play")[0]
        if as_objects and env.engine == "auto":
            name = SyncEngine.engine
        shown = _picture_mode(env) if name == SyncEngine.engine and source.is_id else None
        cfg = env.model_copy(update={"engine": name})
        return make_vec(cfg, cfg.n_envs, "play", source.factory, shown)

    vec = VecEnv(source, Spaces.of(env, source), env.n_envs, open_engine)
    vec.seed(0 if seed is None else seed)
    return vec


def _picture_mode(cfg: EnvConfig) -> str | None:
    """How envs are made that can be shown: as stable-baselines3 makes them, where they have pictures and nothing else
    is asked for."""
    return "rgb_array" if "render_mode" not in cfg.kwargs and draws(find_spec(cfg.id)) else None


def _around(make: MakeEnv, wrapper: Callable[..., gym.Env[Any, Any]] | None, kwargs: dict[str, Any] | None) -> MakeEnv:
    return make if wrapper is None else functools.partial(_wrapped, make, wrapper, kwargs or {})


def _wrapped(make: MakeEnv, wrapper: Callable[..., gym.Env[Any, Any]], kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    return wrapper(make(), **kwargs)


def _is_theirs(vec_env_cls: Any) -> bool:
    return getattr(vec_env_cls, "__module__", "").startswith(SB3)


def _monitor() -> Any:
    if problem := package_problem(SB3, None):
        raise UserError(f"make_vec_env: monitor_dir and monitor_kwargs are for its Monitor, and {problem}")
    return importlib.import_module(f"{SB3}.common.monitor").Monitor
