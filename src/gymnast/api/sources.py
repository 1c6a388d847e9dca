"""Where a model's envs come from: an id, an env object, a factory, what `make_vec_env` returned, or a vector of
stable-baselines3's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from gymnast.core.errors import UserError
from gymnast.envs.engines.given import GivenVector
from gymnast.envs.make import Factory, make_env
from gymnast.envs.space_json import space_from_json, space_to_json
from gymnast.envs.spaces import ActionLayout, ObsLayout

if TYPE_CHECKING:
    from gymnast.config import EnvConfig


@dataclass(frozen=True)
class EnvSource:
    """`name` is an env's id, or what an env object's class is called: nothing can be made from that name."""

    name: str
    factory: Factory | None = None  # None: made from the id
    given: Any = None  # the user's own env, or vector of envs: there is one, and it is theirs to close
    settings: dict[str, Any] = field(default_factory=dict)  # keys of the `env` section that come with it

    @property
    def is_id(self) -> bool:
        return self.factory is None

    @property
    def vector(self) -> Any:
        """The vector of another library that is trained on as it is; None: envs are made here."""
        return self.given if isinstance(self.factory, GivenVector) else None


def source_of(env: Any) -> EnvSource:
    """Understands whatever a user passes as an env."""
    from gymnast.api.vec_env import VecEnv

    if isinstance(env, str):
        return EnvSource(env)
    if isinstance(env, VecEnv):
        return env.source
    if isinstance(env, gym.Env):
        return EnvSource(class_name(env), lambda: env, env, {"n_envs": 1})
    if isinstance(env, gym.vector.VectorEnv):
        raise UserError(
            f"env: {type(env).__name__} is a vector env of Gymnasium, which is not supported. "
            "Use gymnast.make_vec_env(id_or_function, n_envs=...) instead."
        )
    if hasattr(env, "step_async") and hasattr(env, "num_envs"):  # stable-baselines3's interface
        return EnvSource(type(env).__name__, GivenVector(env), env, {"n_envs": env.num_envs, "engine": "auto"})
    if callable(env):
        made = env()
        if not isinstance(made, gym.Env):
            raise UserError(f"env: the factory returned {type(made).__name__}, not a gymnasium.Env.")
        made.close()
        return EnvSource(class_name(made), env)
    raise UserError(
        f"env: {env!r} is not an env. Pass an id like 'CartPole-v1', a gymnasium.Env, a function that makes one, "
        "what gymnast.make_vec_env returns, or a vector of stable-baselines3's."
    )


def class_name(env: gym.Env[Any, Any]) -> str:
    return type(env.unwrapped).__name__


class Spaces:
    """An env's spaces as it declares them, and as the learner sees them."""

    def __init__(self, observation: gym.Space[Any], action: gym.Space[Any]) -> None:
        self.observation, self.action = observation, action
        self.layout, self.actions = ObsLayout(observation), ActionLayout(action)
        self.obs_space, self.action_space = self.layout.obs_space, self.actions.space

    @classmethod
    def of(cls, config: EnvConfig, source: EnvSource) -> Spaces:
        """Asks an env that is made for the purpose, with the config's wrappers, or the vector that was given."""
        if source.vector is not None:
            return cls(source.vector.observation_space, source.vector.action_space)
        env = make_env(config, "train", source.factory)
        try:
            return cls(env.observation_space, env.action_space)
        finally:
            if source.given is None:
                env.close()

    def to_json(self) -> dict[str, Any]:
        return {"observation_space": space_to_json(self.observation), "action_space": space_to_json(self.action)}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> Spaces:
        return cls(space_from_json(form["observation_space"]), space_from_json(form["action_space"]))

    def fit(self, other: Spaces) -> bool:
        return self.obs_space == other.obs_space and self.action == other.action
