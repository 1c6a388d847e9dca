"""How good a model is, in a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnast.api.sources import source_of
from gymnast.api.vec_env import VecEnv
from gymnast.core.errors import UserError
from gymnast.envs.make import make_vec
from gymnast.judge.evaluate import Evaluation, evaluate

if TYPE_CHECKING:
    from gymnast.api.model import Model

MOST_ENVS = 8


def evaluate_policy(
    model: Model,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    *,
    return_episode_rewards: bool = False,
    warn: bool = True,
) -> tuple[Any, Any]:
    """Mean and standard deviation of the return, or every episode's return and length, in the env's own reward.

    Each env plays its quota of episodes, so that short ones are not favoured. Other episodes every time it is called.
    `env`: as a model takes it; the model's wrappers are put around it, unless it is a vector of envs.
    `warn` is accepted for scripts' sake: rewards are recorded below every wrapper, so there is nothing to warn of.
    """
    if n_eval_episodes < 1:
        raise UserError(f"n_eval_episodes: must be at least 1, not {n_eval_episodes}.")
    scores = _scores(model, env, n_eval_episodes, deterministic)
    if return_episode_rewards:
        return scores.returns.tolist(), scores.lengths.tolist()
    return scores.mean, scores.std


def _scores(model: Model, env: Any, episodes: int, deterministic: bool) -> Evaluation:
    if isinstance(env, VecEnv):
        _check_fit(model, env.source.name, env.engine)
        return evaluate(model.net, env.engine, episodes, model.draw_seed(), deterministic)
    source = source_of(env)
    n_envs = 1 if source.given is not None else min(episodes, MOST_ENVS)
    same = source.name == model.config.env.id
    changes = {"id": source.name, "engine": "auto", "kwargs": model.config.env.kwargs if same else {}}
    engine = make_vec(model.config.env.model_copy(update=changes), n_envs, "eval", source.factory)
    try:
        _check_fit(model, source.name, engine)
        return evaluate(model.net, engine, episodes, model.draw_seed(), deterministic)
    finally:
        if source.given is None:
            engine.close()
        elif model.source is not None and model.source.given is source.given:
            model.get_env().used = True  # it is what training goes on with: its episode is not the one that was left


def _check_fit(model: Model, name: str, env: Any) -> None:
    if env.obs_space != model.policy.obs_space or env.action_space != model.policy.action_space:
        raise UserError(
            f"env: {name} does not fit this model: observations {env.obs_space} and actions {env.action_space} "
            f"instead of {model.policy.obs_space} and {model.policy.action_space}."
        )
