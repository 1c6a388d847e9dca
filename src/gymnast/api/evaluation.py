"""How good a model is, in a call."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.api.arguments import argument_errors
from gymnast.api.model import Model
from gymnast.api.policy import Policy
from gymnast.api.sources import source_of
from gymnast.api.vec_env import VecEnv, as_step, wrappers_of
from gymnast.core.errors import UserError
from gymnast.envs import types
from gymnast.envs.engines.given import is_monitored
from gymnast.envs.make import make_vec
from gymnast.judge.evaluate import Evaluation, evaluate

MOST_ENVS = 8
Callback = Callable[[dict[str, Any], dict[str, Any]], Any]


@argument_errors
def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: Callback | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
) -> tuple[Any, Any]:
    """Mean and standard deviation of the return, or every episode's return and length, in the env's own reward.

    Each env plays its quota of episodes, so that short ones are not favoured. Other episodes every time it is called.
    `env`: as a model takes it; the model's wrappers are put around it, unless it is a vector of envs.
    `callback(locals, globals)` is called for every step of every env whose quota is not played, with `model`, `env`,
    `observations`, `actions`, `new_observations`, `rewards`, `dones`, `infos`, and `i`, `reward`, `done`, `info` of
    that env. A mean that is not above `reward_threshold` is an AssertionError.
    Scores are taken below the wrappers that Gymnast puts around an env, and where there is one by stable-baselines3's
    Monitor; `warn`: say so, where wrappers of the user's own lie in between.
    """
    owner: Model = model._model if isinstance(model, Policy) else model
    if not isinstance(owner, Model):
        raise UserError(
            f"evaluate_policy: {type(model).__name__} is not a model of Gymnast; the library that it is of has its own."
        )
    if n_eval_episodes < 1:
        raise UserError(f"n_eval_episodes: must be at least 1, not {n_eval_episodes}.")
    env, true = _monitored(owner, env)
    if warn and not true:
        warnings.warn(
            "evaluate_policy: scores are of the rewards and episodes that this env gives, its own wrappers included. "
            "A Monitor below those that change them would score the env itself; warn=False if this is meant.",
            stacklevel=2,
        )
    around = Looked(model, owner, env, n_eval_episodes, render, callback) if render or callback else None
    scores = _scores(owner, env, n_eval_episodes, deterministic, around)
    if reward_threshold is not None and not scores.mean > reward_threshold:
        raise AssertionError(f"mean return {scores.mean:.2f} is not above the threshold {reward_threshold:.2f}")
    if return_episode_rewards:
        return scores.returns.tolist(), scores.lengths.tolist()
    return scores.mean, scores.std


def _monitored(model: Model, env: Any) -> tuple[Any, bool]:
    """The env, and whether its scores are those of the env below all wrappers that may change them. One that has a
    Monitor inside becomes a vector, whose infos say what the Monitor saw."""
    if isinstance(env, gym.Env):
        layers = wrappers_of(env)
        if not any(type(layer).__name__ == "Monitor" for layer in layers):
            return env, all(map(keeps_scores, layers))
        cfg = model.config.env
        if cfg.wrappers or cfg.action_masks or cfg.forbid:  # for envs that are made here
            return env, False
        return importlib.import_module("stable_baselines3.common.vec_env").DummyVecEnv([lambda: env]), True
    return env, isinstance(env, VecEnv) or not hasattr(env, "step_async") or is_monitored(env)


def keeps_scores(layer: gym.Env[Any, Any]) -> bool:
    """Whether a wrapper is one of Gymnasium's that leave rewards as they are: those that make() adds among them."""
    changes = isinstance(layer, gym.RewardWrapper | gym.wrappers.NormalizeReward)
    return type(layer).__module__.startswith("gymnasium.wrappers") and not changes


def _scores(model: Model, env: Any, episodes: int, deterministic: bool, looked: Looked | None) -> Evaluation:
    def scores(engine: types.VecEnv, name: str) -> Evaluation:
        _check_fit(model, name, engine)
        if model.config.env.action_masks and engine.reset(0).mask is None:
            raise UserError(
                f"env: this model was trained with action masks, and these envs of {name} give none. Pass an id, a "
                "function that makes an env, or model.get_env()."
            )
        watched: Any = engine if looked is None else looked.at(engine)
        return evaluate(model.net, model.seen_by_agent(watched), episodes, model.draw_seed(), deterministic)

    if isinstance(env, VecEnv):
        return scores(env.engine, env.source.name)
    source = source_of(env)
    n_envs = 1 if source.given is not None else min(episodes, MOST_ENVS)
    same = source.name == model.config.env.id
    changes = {"id": source.name, "engine": "auto", "kwargs": model.config.env.kwargs if same else {}}
    engine = make_vec(model.config.env.model_copy(update=changes), n_envs, "eval", source.factory)
    try:
        return scores(engine, source.name)
    finally:
        if source.given is None:
            engine.close()
        elif model.source is not None and model.source.given is source.given:
            model.own_env().used = True  # it is what training goes on with: its episode is not the one that was left


class Looked:
    """Envs under evaluation, with somebody looking at every step."""

    def __init__(
        self, model: Any, owner: Model, env: Any, episodes: int, render: bool, callback: Callback | None
    ) -> None:
        self._spaces, self._render, self._callback = owner.spaces, render, callback
        self._episodes = episodes
        self._locals: dict[str, Any] = {"model": model, "env": env, "n_eval_episodes": episodes}

    def at(self, engine: types.VecEnv) -> Looked:
        self._engine = engine
        self._left = np.array([(self._episodes + row) // engine.n_envs for row in range(engine.n_envs)])[::-1].copy()
        return self

    def reset(self, seed: int) -> types.StepBatch:
        now = self._engine.reset(seed)
        self._locals["new_observations"] = self._spaces.layout.to_raw(now.obs)
        return now

    def step(self, actions: NDArray[Any]) -> types.StepBatch:
        now = self._engine.step(actions)
        seen, rewards, dones, infos = as_step(now, self._spaces)
        known = self._locals
        known |= {"observations": known["new_observations"], "new_observations": seen, "actions": np.array(actions)}
        known |= {"rewards": rewards, "dones": dones, "infos": infos}
        if self._callback is not None:
            for row in np.flatnonzero(self._left).tolist():
                known |= {"i": row, "reward": rewards[row], "done": dones[row], "info": infos[row]}
                self._callback(known, {})
        for record in now.episodes:
            self._left[record.env] = max(0, self._left[record.env] - 1)
        shown = [*getattr(self._engine, "envs", []), known["env"]][0]
        if self._render and getattr(shown, "render_mode", None) is not None:
            shown.render()
        return now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _check_fit(model: Model, name: str, env: Any) -> None:
    known = model.spaces
    if env.obs_space != known.obs_space or env.action_space != known.action_space:
        raise UserError(
            f"env: {name} does not fit this model: observations {env.obs_space} and actions {env.action_space} "
            f"instead of {known.obs_space} and {known.action_space}."
        )
