"""`gymnast envs check`: an env exactly as training would step it, with random actions, and what comes out of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.seeds import derive_seed
from gymnast.envs.make import choose_engine, make_training_vec
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.verbs.envs.results import Distribution
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.random_actions import random_actions
from gymnast.verbs.train import resolve_config

STATISTICS = ("mean", "std", "min", "max")


@dataclass(frozen=True)
class ObservationCheck:
    name: str
    space: str
    shape: list[int]
    dtype: str
    declared: tuple[float, float]  # least and greatest
    partly_bounded: bool
    seen: tuple[float, float]
    outside: list[int]  # components that left their bounds


@dataclass(frozen=True)
class EnvCheck:
    target: str
    env: str
    engine: str
    why: str  # this engine
    n_envs: int
    exact_resume: bool
    observations: list[ObservationCheck]
    action_space: str
    masks: bool
    steps: int  # of all envs
    seconds: float  # in the engine
    finite: bool
    episodes: int
    terminated: int
    truncated: int
    returns: Distribution
    length: Distribution
    components: dict[str, float]  # mean of each named part of the return
    reward: Distribution
    nonzero: float  # share of the rewards

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds

    @property
    def notes(self) -> list[str]:
        """What a user should look at."""
        notes = []
        if not self.finite:
            notes.append("an observation or reward is not finite: training on it cannot work")
        for part in self.observations:
            if part.outside:
                which = ", ".join(map(str, part.outside[:8])) + (" ..." if len(part.outside) > 8 else "")
                notes.append(f"{part.name} went outside the bounds its space declares (component {which})")
        if not self.episodes:
            notes.append("no episode ended: if none ever does, set env.max_episode_steps")
        if self.nonzero == 0:
            notes.append("random actions met no reward at all: expect a slow start, or shape it")
        return notes

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["return"] = data.pop("returns")
        for name in ("return", "length", "reward"):
            data[name] = {key: data[name][key] for key in STATISTICS}
        data["reward"]["nonzero"] = data.pop("nonzero")
        return data | {"steps_per_second": self.steps_per_second, "notes": self.notes}


def check_env(target: str, overrides: Sequence[str], steps: int, progress: Progress = SILENT) -> EnvCheck:
    resolved = resolve_config(target, overrides)
    config = resolved.config
    _, why = choose_engine(config.env, config.env.n_envs)
    env = make_training_vec(config)
    try:
        seen = _play(env, steps, config.train.seed, progress)
    finally:
        env.close()
    rewards = np.concatenate(seen.rewards)
    arrays = [rewards, *seen.low.values(), *seen.high.values()]
    terminated = sum(record.terminated for record in seen.episodes)
    return EnvCheck(
        target=resolved.target,
        env=config.env.id,
        engine=env.engine,
        why=why,
        n_envs=env.n_envs,
        exact_resume=env.exact_resume,
        observations=[seen.observation(name, space) for name, space in env.obs_space.items()],
        action_space=str(env.action_space),
        masks=seen.masks,
        steps=len(rewards),
        seconds=seen.seconds,
        finite=all(bool(np.isfinite(array).all()) for array in arrays),
        episodes=len(seen.episodes),
        terminated=terminated,
        truncated=len(seen.episodes) - terminated,
        returns=Distribution.of([record.raw_return for record in seen.episodes]),
        length=Distribution.of([record.length for record in seen.episodes]),
        components=seen.components(),
        reward=Distribution.of(rewards),
        nonzero=float((rewards != 0).mean()),
    )


@dataclass
class Seen:
    """What came out of an env."""

    episodes: list[EpisodeRecord] = field(default_factory=list)
    rewards: list[NDArray[np.float32]] = field(default_factory=list)
    low: dict[str, NDArray[Any]] = field(default_factory=dict)  # of each component
    high: dict[str, NDArray[Any]] = field(default_factory=dict)
    masks: bool = False
    seconds: float = 0.0  # in the engine, not in choosing actions

    def add(self, batch: StepBatch) -> None:
        self.episodes += batch.episodes
        self.masks = batch.mask is not None
        for name, leaf in batch.obs.items():
            low, high = leaf.min(axis=0), leaf.max(axis=0)  # NaN stays in both of them
            self.low[name] = np.minimum(low, self.low.get(name, low))
            self.high[name] = np.maximum(high, self.high.get(name, high))

    def observation(self, name: str, space: gym.Space[Any]) -> ObservationCheck:
        low, high = _bounds(space)
        outside = np.flatnonzero((self.low[name] < low) | (self.high[name] > high))
        return ObservationCheck(
            name=name,
            space=type(space).__name__,
            shape=list(space.shape or ()),
            dtype=str(space.dtype),
            declared=(float(np.min(low)), float(np.max(high))),
            partly_bounded=bool(np.isfinite(low).any() and not np.isfinite(low).all()),
            seen=(float(self.low[name].min()), float(self.high[name].max())),
            outside=outside.tolist(),
        )

    def components(self) -> dict[str, float]:
        names = dict.fromkeys(name for record in self.episodes for name in record.components)
        return {name: float(np.mean([r.components.get(name, 0.0) for r in self.episodes])) for name in names}


def _play(env: VecEnv, steps: int, seed: int, progress: Progress) -> Seen:
    seen = Seen()
    rng = np.random.default_rng(derive_seed(seed, "check"))
    env.action_space.seed(derive_seed(seed, "check"))
    batch = env.reset(derive_seed(seed, "train"))
    seen.add(batch)
    progress.step("stepping")
    progress.plan(steps)
    for _ in range(steps):
        actions = random_actions(env, batch.mask, rng)
        before = time.perf_counter()
        batch = env.step(actions)
        seen.seconds += time.perf_counter() - before
        seen.add(batch)
        seen.rewards.append(batch.reward.copy())
        progress.done()
    return seen


def _bounds(space: gym.Space[Any]) -> tuple[Any, Any]:
    """Least and greatest value, of each component where they differ."""
    if isinstance(space, gym.spaces.Box):
        return space.low, space.high
    if isinstance(space, gym.spaces.Discrete):
        return 0, space.n - 1
    return 0, space.nvec - 1 if isinstance(space, gym.spaces.MultiDiscrete) else 1
