"""A vector of envs for scripts, in the shape of stable-baselines3's: one call steps all, ended episodes start again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.api.sources import EnvSource, Spaces
from gymnast.core.errors import Lacking, UserError, did_you_mean
from gymnast.core.seeds import derive_seed
from gymnast.envs import types
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.recorder import Recorder

Step = tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]


class VecEnv:
    """`reset() -> obs`, `step(actions) -> obs, rewards, dones, infos`; arrays with one row an env.

    Observations and actions are as the env itself declares them. infos[i] is filled where an episode ended:
    `terminal_observation`, `TimeLimit.truncated`, `episode` ({"r": return, "l": length}), and the plain values of the
    env's own last info. `envs`, `get_attr` and their like reach env objects in this process: where they are asked for
    before the first reset, the envs are such objects, with pictures; later `engine="sync"` must have made them.
    """

    def __init__(self, source: EnvSource, spaces: Spaces, num_envs: int, open_engine: Callable[[bool], types.VecEnv]):
        """`open_engine(whether as objects in this process)` makes the envs."""
        self.source, self.num_envs = source, num_envs
        self.observation_space, self.action_space = spaces.observation, spaces.action
        self.used = False  # whether anybody but training has moved the envs
        self.busy = False  # whether training moves them right now
        self._spaces, self._open = spaces, open_engine
        self._engine: types.VecEnv | None = None
        self._seed, self._resets = 0, 0
        self._mask: NDArray[np.bool_] | None = None
        self._actions: Any = None
        if (theirs := sys.modules.get("stable_baselines3.common.vec_env.dummy_vec_env")) is not None:
            theirs.DummyVecEnv.register(VecEnv)  # so that its wrappers and callbacks take it for one of theirs

    @property
    def engine(self) -> types.VecEnv:
        """What steps the envs. Whoever asks for it is about to move them."""
        if self.busy:
            raise UserError("these envs are being trained on. Give a callback envs of its own: make_vec_env(...).")
        self.used = True
        if self._engine is None:
            self._engine = self._open(False)
        return self._engine

    @property
    def render_mode(self) -> str | None:
        """How the envs can be shown: as they were made; nothing is made to answer this."""
        if isinstance(self._engine, SyncEngine):
            return self._engine.envs[0].render_mode
        asked: str | None = self.source.settings.get("kwargs", {}).get("render_mode")
        return asked

    def seed(self, seed: int | None = None) -> list[int | None]:
        """The episodes from the next reset on follow from this number."""
        self._seed, self._resets = int(np.random.default_rng().integers(2**31)) if seed is None else seed, 0
        return [self._seed] * self.num_envs

    def reset(self) -> Any:
        now = self.engine.reset(derive_seed(self._seed, "vec env", self._resets))
        self._resets += 1
        self._mask = now.mask
        return self._spaces.layout.to_raw(now.obs)

    def step(self, actions: Any) -> Step:
        taken = np.asarray(actions)
        if self.num_envs == 1 and taken.shape == self.action_space.shape:
            taken = taken[np.newaxis]
        if taken.ndim == 0 or len(taken) != self.num_envs:
            count = 1 if taken.ndim == 0 else len(taken)
            raise UserError(f"step() takes {self.num_envs} actions, one an env; got {count}.")
        now = self.engine.step(taken - self._spaces.actions.start if np.any(self._spaces.actions.start) else taken)
        self._mask = now.mask
        return as_step(now, self._spaces)

    def step_async(self, actions: Any) -> None:
        """The actions of the next `step_wait`; nothing moves before."""
        self._actions = actions

    def step_wait(self) -> Step:
        return self.step(self._actions)

    @property
    def action_masks(self) -> NDArray[np.bool_] | None:
        """Actions that may be taken next, [envs, actions]; None where the env gives no masks."""
        return None if self._mask is None else self._mask.copy()

    def render(self, mode: str | None = None) -> Any:
        """The first env's picture, where it was made with a render_mode and lives in this process; else None.

        `mode`: how an env is shown is decided where it is made; "rgb_array" is refused where that was not asked for.
        """
        shown = self._engine.envs[0] if isinstance(self._engine, SyncEngine) else None
        if shown is None or shown.render_mode is None:
            if mode == "rgb_array":
                raise UserError(
                    "render('rgb_array'): these envs have no pictures. Envs that have some show them if they are made "
                    "by make_vec_env(id, engine='sync'); a class of your own needs its render_mode in env_kwargs."
                )
            return None
        return shown.render()

    def get_images(self) -> list[Any]:
        return [env.render() for env in self._objects("get_images")]

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """As they were made, with the wrappers of whoever made them."""
        return [env.env if isinstance(env, Recorder) else env for env in self._objects("envs")]

    @property
    def unwrapped(self) -> VecEnv:
        return self

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "render_mode":  # what every wrapper of stable-baselines3 asks for: no env is made for that
            return [self.render_mode for _ in self._rows(indices)]
        return [env.get_wrapper_attr(attr_name) for env in self._objects("get_attr", indices)]

    def has_attr(self, attr_name: str) -> bool:
        return all(env.has_wrapper_attr(attr_name) for env in self._objects("has_attr"))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        for env in self._objects("set_attr", indices):
            env.set_wrapper_attr(attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return [env.get_wrapper_attr(method_name)(*args, **kwargs) for env in self._objects("env_method", indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """A Monitor always: episodes are recorded, as it does, whatever the engine."""
        if wrapper_class.__name__ == "Monitor":
            return [True for _ in self._rows(indices)]
        layers = [wrappers_of(env) for env in self._objects("env_is_wrapped", indices)]
        return [any(isinstance(layer, wrapper_class) for layer in row) for row in layers]

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        """For stable-baselines3's wrappers, which ask what an attribute of theirs would hide."""
        return f"{type(self).__module__}.{type(self).__name__}" if hasattr(self, name) and already_found else None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _rows(self, indices: Any) -> Iterable[int]:
        if indices is None:
            return range(self.num_envs)
        return [indices] if isinstance(indices, int) else indices

    def _objects(self, asked: str, indices: Any = None) -> list[gym.Env[Any, Any]]:
        """The env objects, with their wrappers."""
        if self._engine is None:
            self._engine = self._open(True)
        engine = self._engine
        if not isinstance(engine, SyncEngine):
            raise Lacking(
                f"{asked}: the {engine.engine} engine keeps no env objects in this process. "
                "Use make_vec_env(..., engine='sync'), or set={'env.engine': 'sync'} for a model's own envs."
            )
        return [engine.envs[row] for row in self._rows(indices)]

    def __getattr__(self, name: str) -> NoReturn:
        if isinstance(own := getattr(type(self), name, None), property):
            own.__get__(self)  # it is here only because this raises: with its own reason
        known = [entry for entry in dir(type(self)) if not entry.startswith("_")]
        raise Lacking(f"gymnast's VecEnv has no {name!r}.{did_you_mean(name, known)} It has: {', '.join(known)}.")


def as_step(now: types.StepBatch, spaces: Spaces) -> Step:
    """A step of an engine as stable-baselines3 shows it, in new arrays."""
    infos: list[dict[str, Any]] = [{} for _ in now.reward]
    dones = now.terminated | now.truncated
    final = spaces.layout.to_raw(now.final_obs) if dones.any() else None
    for index in np.flatnonzero(dones).tolist():  # also where only a life was lost: no episode's score there
        infos[index] = {"terminal_observation": _row(final, index), "TimeLimit.truncated": bool(now.truncated[index])}
    for record in now.episodes:
        infos[record.env] = record.info | infos[record.env] | {"episode": {"r": record.raw_return, "l": record.length}}
    return spaces.layout.to_raw(now.obs), now.reward.copy(), dones, infos


def wrappers_of(env: gym.Env[Any, Any]) -> list[gym.Env[Any, Any]]:
    """Outermost first."""
    layers: list[gym.Env[Any, Any]] = []
    while isinstance(env, gym.Wrapper):
        layers.append(env)
        env = env.env
    return layers


def _row(observation: Any, index: int) -> Any:
    if isinstance(observation, dict):
        return {key: _row(value, index) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_row(value, index) for value in observation)
    return observation[index]
