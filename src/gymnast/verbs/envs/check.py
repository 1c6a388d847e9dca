"""`gymnast envs check`: an env exactly as training would step it, with random actions, and what comes out of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.envs.make import choose_engine, make_training_vec
from gymnast.envs.types import EpisodeRecord, VecEnv
from gymnast.verbs.envs.check_all import check_envs
from gymnast.verbs.envs.health import Checked, check_health
from gymnast.verbs.envs.play import distribution, endings, random_steps
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.train import resolve_config

STATISTICS = ("mean", "std", "min", "max")
STEPS, STEPS_OF_MANY = 1000, 200  # vector steps of one env in detail, and of each of several
PROBE = 50  # vector steps that are repeated to see whether a seed does


def check(
    targets: Sequence[str],
    overrides: Sequence[str] = (),
    everything: bool = False,
    steps: int | None = None,
    seconds: float = 30.0,
    progress: Progress = SILENT,
) -> Checked:
    """One env in detail; several, or all with presets, in a line each."""
    if not targets and not everything:
        raise UserError("name an ENV, or give --all for every preset: see `gymnast envs list`.")
    if len(targets) == 1 and not everything:
        return check_env(targets[0], overrides, steps or STEPS, seconds, progress)
    return check_envs(targets, overrides, steps or STEPS_OF_MANY, everything, progress)


def check_env(
    target: str, overrides: Sequence[str], steps: int, seconds: float = 30.0, progress: Progress = SILENT
) -> Checked:
    resolved = resolve_config(target, overrides)
    config = resolved.config
    _, why = choose_engine(config.env, config.env.n_envs)
    env = make_training_vec(config)
    try:
        seen = _play(env, steps, seconds, config.train.seed, progress)
    finally:
        env.close()
    progress.step("seeds, resets and pictures")
    health = check_health(config, min(steps, PROBE))
    data = {
        "target": resolved.target,
        "env": config.env.id,
        "engine": env.engine,
        "why": why,  # this engine
        "n_envs": env.n_envs,
        "exact_resume": env.exact_resume and health.repeats is not False,
        "action_space": str(env.action_space),
        "actions_left": env.action_labels if config.env.forbid else None,
        **seen,
        **{name: getattr(health, name) for name in ("repeats", "varies", "picture", "problems")},
    }
    done = seen["steps"] // env.n_envs
    late = f"stopped after {seconds:g} s: {done:,} of {steps:,} vector steps. More with --seconds"
    return Checked(data | {"notes": [*_notes(data), *([late] if done < steps else [])]})


def _play(env: VecEnv, steps: int, most: float, seed: int, progress: Progress) -> dict[str, Any]:
    """What came out of the env: of the observations the least and greatest value of each component."""
    low: dict[str, NDArray[Any]] = {}
    high: dict[str, NDArray[Any]] = {}
    episodes: list[EpisodeRecord] = []
    found, seconds = [], 0.0  # in the engine, not in choosing actions
    progress.step("stepping")
    progress.plan(steps)
    until = time.perf_counter() + most
    for actions, batch, took in random_steps(env, steps, seed, "check", progress):
        episodes += batch.episodes
        seconds += took
        for name, leaf in batch.obs.items():
            least, most = leaf.min(axis=0), leaf.max(axis=0)  # NaN stays in both of them
            low[name] = np.minimum(least, low.get(name, least))
            high[name] = np.maximum(most, high.get(name, most))
        if actions is not None:
            found.append(batch.reward.copy())
            if time.perf_counter() >= until:
                break
    rewards = np.concatenate(found)
    return {
        "observations": [_observation(name, space, low[name], high[name]) for name, space in env.obs_space.items()],
        "masks": batch.mask is not None,
        "steps": len(rewards),  # of all envs
        "seconds": seconds,
        "steps_per_second": len(rewards) / seconds,
        "finite": all(bool(np.isfinite(array).all()) for array in (rewards, *low.values(), *high.values())),
        "episodes": len(episodes),
        **endings(episodes),
        "return": _statistics([record.raw_return for record in episodes]),
        "length": _statistics([record.length for record in episodes]),
        "components": _components(episodes),
        "reward": _statistics(rewards) | {"nonzero": float((rewards != 0).mean())},
    }


def _statistics(values: Any) -> dict[str, float | None]:
    found = distribution(values)
    return {name: found[name] for name in STATISTICS}


def _observation(name: str, space: gym.Space[Any], least: NDArray[Any], most: NDArray[Any]) -> dict[str, Any]:
    low, high = _bounds(space)
    return {
        "name": name,
        "space": type(space).__name__,
        "shape": list(space.shape or ()),
        "dtype": str(space.dtype),
        "declared": (float(np.min(low)), float(np.max(high))),
        "partly_bounded": bool(np.isfinite(low).any() and not np.isfinite(low).all()),
        "seen": (float(least.min()), float(most.max())),
        "outside": np.flatnonzero((least < low) | (most > high)).tolist(),  # components that left their bounds
    }


def _bounds(space: gym.Space[Any]) -> tuple[Any, Any]:
    """Least and greatest value, of each component where they differ."""
    if isinstance(space, gym.spaces.Box):
        return space.low, space.high
    if isinstance(space, gym.spaces.Discrete):
        return 0, space.n - 1
    return 0, space.nvec - 1 if isinstance(space, gym.spaces.MultiDiscrete) else 1


def _components(episodes: Sequence[EpisodeRecord]) -> dict[str, float]:
    """The mean of each named part of the return."""
    names = dict.fromkeys(name for record in episodes for name in record.components)
    return {name: float(np.mean([record.components.get(name, 0.0) for record in episodes])) for name in names}


def _notes(data: dict[str, Any]) -> list[str]:
    """What a user should look at."""
    notes = []
    if not data["finite"]:
        notes.append("an observation or reward is not finite: training on it cannot work")
    for part in data["observations"]:
        if outside := part["outside"]:
            which = ", ".join(map(str, outside[:8])) + (" ..." if len(outside) > 8 else "")
            notes.append(f"{part['name']} went outside the bounds its space declares (component {which})")
    if not data["episodes"]:
        notes.append("no episode ended: if none ever does, set env.max_episode_steps")
    returns, lengths = data["return"], data["length"]
    if data["episodes"] > 1 and returns["min"] == returns["max"] != 0 and lengths["min"] == lengths["max"]:
        notes.append(
            f"{data['episodes']} episodes had the same return and length, whatever was done; see `gymnast envs audit`"
        )
    if data["reward"]["nonzero"] == 0:
        notes.append("random actions met no reward at all: expect a slow start, or shape it")
    return notes
