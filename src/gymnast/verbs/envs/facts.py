"""Whether the facts of a preset are those of its env: spaces, labels, time limit, threshold, rewards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.config import EnvFacts
from gymnast.envs.suites import make

WALK = 500  # steps of random actions, whose rewards must lie in the stated range


def wrong_facts(env_id: str, facts: EnvFacts) -> list[str]:
    """What the env itself says otherwise, a line each."""
    env = make(env_id, facts.kwargs)
    try:
        return [*_labels(env, facts), *_bounds(env, facts), *_registration(env, facts), *_rewards(env, facts)]
    finally:
        env.close()


def _labels(env: gym.Env[Any, Any], facts: EnvFacts) -> Iterator[str]:
    space, own = env.action_space, getattr(env.unwrapped, "get_action_meanings", None)
    number = int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))
    if len(facts.actions) != number:
        yield f"facts.actions: {len(facts.actions)} labels for {number} actions"
    elif own is not None and facts.actions != own():
        yield f"facts.actions: {facts.actions}, but the env calls them {own()}"


def _bounds(env: gym.Env[Any, Any], facts: EnvFacts) -> Iterator[str]:
    real = _components(env.observation_space)
    if len(facts.observations) != len(real):
        yield f"facts.observations: {len(facts.observations)} components, but the env has {len(real)}"
        return
    for fact, pair in zip(facts.observations, real, strict=True):
        for known, bound in zip((fact.low, fact.high), pair, strict=True):
            same = known is None if not np.isfinite(bound) else known is not None and np.isclose(known, bound, 1e-6, 0)
            if not same:
                yield f"facts.observations: {fact.name} is bounded by {known}, in the env by {bound:g}"


def _components(space: spaces.Space[Any]) -> list[tuple[float, float]]:
    """(low, high) of each component; infinite where unbounded. All pixels of a picture are one, and so is a board."""
    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        return [(0.0, 255.0)]
    if isinstance(space, spaces.Box) and space.dtype == np.bool_:
        return [(0.0, 1.0)] * space.shape[-1]
    if isinstance(space, spaces.Box):
        return list(zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True))
    if isinstance(space, spaces.Discrete):
        return [(float(space.start), float(space.start + space.n - 1))]
    assert isinstance(space, spaces.Tuple)
    return [pair for part in space.spaces for pair in _components(part)]


def _registration(env: gym.Env[Any, Any], facts: EnvFacts) -> Iterator[str]:
    assert env.spec is not None
    limit, threshold = env.spec.max_episode_steps, env.spec.reward_threshold
    if limit is not None and facts.max_episode_steps != limit:
        yield f"facts.max_episode_steps: {facts.max_episode_steps}, registered with {limit}"
    solved = facts.solved
    if solved and solved.source == "registered with Gymnasium" and solved.threshold != threshold:
        yield f"facts.solved: {solved.threshold}, registered with {threshold}"


def _rewards(env: gym.Env[Any, Any], facts: EnvFacts) -> Iterator[str]:
    low = -np.inf if facts.reward.low is None else facts.reward.low
    high = np.inf if facts.reward.high is None else facts.reward.high
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(WALK if (low, high) != (-np.inf, np.inf) else 0):
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        if not low <= float(reward) <= high:
            yield f"facts.reward: {low:g} to {high:g}, but a step paid {float(reward):g}"
            return
        if terminated or truncated:
            env.reset()
