"""`gymnast envs check`: an env exactly as training would step it, with random actions, and what comes out of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from gymnast.core.seeds import derive_seed
from gymnast.core.text import number, span
from gymnast.envs.make import choose_engine, make_training_vec
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.terminal.format import Cell, Column, facts_grid, heading, output, patience, table
from gymnast.verbs.random_actions import random_actions
from gymnast.verbs.train import resolve_config


def check_env(target: str, overrides: Sequence[str], steps: int, as_json: bool = False) -> dict[str, Any]:
    resolved = resolve_config(target, overrides)
    config = resolved.config
    _, why = choose_engine(config.env, config.env.n_envs)
    env = make_training_vec(config)
    try:
        seen = _play(env, steps, config.train.seed)
        data = {
            "target": resolved.target,
            "env": config.env.id,
            "engine": env.engine,
            "why": why,
            "n_envs": env.n_envs,
            "exact_resume": env.exact_resume,
            "observations": [seen.observation(name, space) for name, space in env.obs_space.items()],
            "action_space": str(env.action_space),
            "masks": seen.masks,
            **seen.report(),
        }
    finally:
        env.close()
    data["notes"] = _notes(data)
    if not as_json:
        _print(data)
    return data


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

    def observation(self, name: str, space: gym.Space[Any]) -> dict[str, Any]:
        low, high = _bounds(space)
        outside = np.flatnonzero((self.low[name] < low) | (self.high[name] > high))
        return {
            "name": name,
            "space": type(space).__name__,
            "shape": list(space.shape or ()),
            "dtype": str(space.dtype),
            "declared": [float(np.min(low)), float(np.max(high))],
            "partly_bounded": bool(np.isfinite(low).any() and not np.isfinite(low).all()),
            "seen": [float(self.low[name].min()), float(self.high[name].max())],
            "outside": outside.tolist(),
        }

    def report(self) -> dict[str, Any]:
        rewards = np.concatenate(self.rewards)
        arrays = [rewards, *self.low.values(), *self.high.values()]
        return {
            "steps": len(rewards),
            "seconds": self.seconds,
            "steps_per_second": len(rewards) / self.seconds,
            "finite": all(bool(np.isfinite(array).all()) for array in arrays),
            "episodes": len(self.episodes),
            "terminated": sum(record.terminated for record in self.episodes),
            "truncated": sum(not record.terminated for record in self.episodes),
            "return": _statistics([record.raw_return for record in self.episodes]),
            "length": _statistics([record.length for record in self.episodes]),
            "components": self.components(),
            "reward": _statistics(rewards) | {"nonzero": float((rewards != 0).mean())},
        }

    def components(self) -> dict[str, float]:
        """Mean of each named part of the return."""
        names = dict.fromkeys(name for record in self.episodes for name in record.components)
        return {name: float(np.mean([r.components.get(name, 0.0) for r in self.episodes])) for name in names}


def _play(env: VecEnv, steps: int, seed: int) -> Seen:
    seen = Seen()
    rng = np.random.default_rng(derive_seed(seed, "check"))
    env.action_space.seed(derive_seed(seed, "check"))
    batch = env.reset(derive_seed(seed, "train"))
    seen.add(batch)
    with patience(steps) as tick:
        for _ in range(steps):
            actions = random_actions(env, batch.mask, rng)
            before = time.perf_counter()
            batch = env.step(actions)
            seen.seconds += time.perf_counter() - before
            seen.add(batch)
            seen.rewards.append(batch.reward.copy())
            tick()
    return seen


def _bounds(space: gym.Space[Any]) -> tuple[Any, Any]:
    """Least and greatest value, of each component where they differ."""
    if isinstance(space, gym.spaces.Box):
        return space.low, space.high
    if isinstance(space, gym.spaces.Discrete):
        return 0, space.n - 1
    return 0, space.nvec - 1 if isinstance(space, gym.spaces.MultiDiscrete) else 1


def _statistics(values: Any) -> dict[str, float | None]:
    if not len(values):
        return dict.fromkeys(("mean", "std", "min", "max"))
    array = np.asarray(values, dtype=np.float64)
    return {
        "mean": float(array.mean()),
        "std": float(array.std()),
        "min": float(array.min()),
        "max": float(array.max()),
    }


def _notes(data: dict[str, Any]) -> list[str]:
    """What a user should look at."""
    notes = []
    if not data["finite"]:
        notes.append("an observation or reward is not finite: training on it cannot work")
    for part in data["observations"]:
        if part["outside"]:
            which = ", ".join(map(str, part["outside"][:8])) + (" ..." if len(part["outside"]) > 8 else "")
            notes.append(f"{part['name']} went outside the bounds its space declares (component {which})")
    if not data["episodes"]:
        notes.append("no episode ended: if none ever does, set env.max_episode_steps")
    if data["reward"]["nonzero"] == 0:
        notes.append("random actions met no reward at all: expect a slow start, or shape it")
    return notes


def _print(data: dict[str, Any]) -> None:
    console = output()
    rate = f"{data['steps_per_second']:,.0f} steps/s ({data['steps']:,} in {data['seconds']:.2f} s of stepping)"
    resume = "exact: episodes go on where they were" if data["exact_resume"] else "episodes in progress start anew"
    endings = f"{data['terminated']:,} terminated, {data['truncated']:,} cut by a time limit"
    console.print(Text(data["target"], style="bold"))
    console.print(
        facts_grid(
            [
                ("engine", f"{data['engine']}: {data['why']}"),
                ("envs", str(data["n_envs"])),
                ("rate", rate),
                ("resume", resume),
                ("actions", data["action_space"] + (", masked" if data["masks"] else "")),
                ("episodes", f"{data['episodes']:,}: {endings}"),
                ("components", ", ".join(f"{name} {mean:.3f}" for name, mean in data["components"].items())),
            ]
        )
    )
    console.print()
    observations: list[list[Cell]] = [
        [
            part["name"],
            part["space"],
            str(tuple(part["shape"])),
            part["dtype"],
            "partly bounded" if part["partly_bounded"] else span(*part["declared"]),
            span(*part["seen"]),
        ]
        for part in data["observations"]
    ]
    columns = [Column(title) for title in ("observation", "space", "shape", "dtype", "declared", "seen")]
    console.print(table(console, columns, observations))
    console.print()
    statistics: list[list[Cell]] = [
        [name, *(number(data[key][column], 3) for column in ("mean", "std", "min", "max"))]
        for name, key in (("return", "return"), ("length", "length"), ("reward a step", "reward"))
    ]
    columns = [Column("random actions"), *(Column(title, right=True) for title in ("mean", "std", "min", "max"))]
    console.print(table(console, columns, statistics))
    if data["notes"]:
        console.print()
        console.print(heading("look at"))
        for note in data["notes"]:
            console.print(Text(f"! {note}", style="yellow"))
