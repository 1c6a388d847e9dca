"""`gymnast envs audit`: what there is to learn from in an env. Rewards, episodes, and whether its copies differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.config import RunConfig
from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_training_vec
from gymnast.envs.types import EpisodeRecord, Obs, StepBatch, VecEnv
from gymnast.terminal.audit import print_audit, save_picture
from gymnast.terminal.format import patience
from gymnast.verbs.extras import EXTRAS
from gymnast.verbs.random_actions import random_actions, same_actions
from gymnast.verbs.train import resolve_config

PROBE = 200  # vector steps of each comparison between two seeds
FAR = 5.0  # deviations from the mean, beyond which a reward is an outlier
EXTREME = 20.0  # deviations that bend gradients
RARE = 1000  # samples for one reward
FINENESS = 100  # parts of a component's deviation, within which two observations count as one
VALUES, BINS = 12, 15  # a bar for each value if there are no more of them, else for each bin

Floats = NDArray[np.float64]
Tick = Callable[[], None]


def audit_env(
    target: str,
    overrides: Sequence[str],
    steps: int,
    seed: int | None = None,
    picture: Path | None = None,
    as_json: bool = False,
) -> dict[str, Any]:
    if picture is not None:
        _check_picture(picture)
    resolved = resolve_config(target, overrides)
    config = resolved.config
    root = config.train.seed if seed is None else seed
    env = make_training_vec(config)
    length = min(steps, PROBE)
    try:
        with patience(3 * length + steps) as tick:
            first, again, other = (
                _probe(env, derive_seed(root, "audit", name), derive_seed(root, "actions"), length, tick)
                for name in ("one", "one", "other")
            )
            seen = _play(env, steps, root, first.deviations(), tick)
        data = {
            "target": resolved.target,
            "env": config.env.id,
            "engine": env.engine,
            "n_envs": env.n_envs,
            "seed": root,
            "steps": steps * env.n_envs,
            "reward": seen.rewards_report(),
            "episodes": seen.episodes_report(),
            "transitions": seen.transitions_report(),
            **_comparisons(first, again, other),
        }
    finally:
        env.close()
    data["warnings"] = _warnings(data, config)
    data["picture"] = None if picture is None else str(picture)
    if picture is not None:
        save_picture(picture, data, seen.samples())
    if not as_json:
        print_audit(data)
    return data


def _check_picture(path: Path) -> None:
    """What would fail at the end is told at the beginning."""
    if not EXTRAS["plot"].installed:
        raise UserError(f"--picture needs matplotlib, which is not installed. Run: {EXTRAS['plot'].command}")
    if path.suffix != ".png":
        raise UserError(f"--picture: {path} must end in .png.")
    if not path.parent.is_dir():
        raise UserError(f"--picture: there is no folder {str(path.parent)!r}.")


@dataclass
class Probe:
    """The same actions in every env: what differs between them, or between two probes, is not the agent's doing."""

    prints: list[list[bytes]] = field(default_factory=list)  # of all that an env gave, by step and env
    obs: list[Obs] = field(default_factory=list)

    def add(self, batch: StepBatch) -> None:
        rest = np.stack([batch.reward, batch.terminated, batch.truncated], axis=1)
        self.prints.append([_print(*(leaf[i] for leaf in batch.obs.values()), rest[i]) for i in range(len(rest))])
        self.obs.append({name: leaf.copy() for name, leaf in batch.obs.items() if leaf.dtype.kind == "f"})

    def deviations(self) -> dict[str, Any]:
        """Of each component of real-valued observations; 1 where one never moves."""
        spread = {name: np.concatenate([obs[name] for obs in self.obs]).std(axis=0) for name in self.obs[0]}
        return {name: np.where(np.isfinite(std) & (std > 0), std, 1.0) for name, std in spread.items()}


def _probe(env: VecEnv, seed: int, actions_seed: int, steps: int, tick: Tick) -> Probe:
    probe = Probe()
    batch = env.reset(seed)
    probe.add(batch)
    for step in range(steps):
        batch = env.step(same_actions(env, batch.mask, derive_seed(actions_seed, step)))
        probe.add(batch)
        tick()
    return probe


def _comparisons(first: Probe, again: Probe, other: Probe) -> dict[str, Any]:
    differs = [step for step, (a, b) in enumerate(zip(first.prints, again.prints, strict=True)) if a != b]
    return {
        "parallel": {
            "steps": len(first.prints) - 1,
            "first_observations": len(set(first.prints[0])),
            "trajectories": len(set(zip(*first.prints, strict=True))),
        },
        "seeding": {
            "same_seed_same": not differs,
            "differs_from_step": differs[0] if differs else None,
            "other_seed_differs": first.prints != other.prints,
        },
    }


@dataclass
class Seen:
    """What came out of an env under random actions."""

    deviations: dict[str, Any]
    rewards: list[NDArray[np.float32]] = field(default_factory=list)  # [envs] each
    episodes: list[EpisodeRecord] = field(default_factory=list)
    transitions: list[list[bytes]] = field(default_factory=list)  # by step and env

    def rounded(self, obs: Obs) -> list[Any]:
        """Leaves in which no difference is left that is smaller than what the component's deviation makes of it."""
        with np.errstate(invalid="ignore"):
            return [
                np.rint(leaf / self.deviations[name] * FINENESS).astype(np.float32) + np.float32(0.0)  # no -0
                if name in self.deviations
                else leaf.copy()
                for name, leaf in obs.items()
            ]

    def rewards_report(self) -> dict[str, Any]:
        """Of all steps, as the learner gets them before its own scaling."""
        table = np.array(self.rewards, np.float64)  # [steps, envs]
        rewards = table.ravel()
        finite = self.samples()[0]
        nonzero = float((rewards != 0).mean())
        gaps = [gap for column in table.T for gap in np.diff(np.flatnonzero(column)).tolist()]
        return {
            **_distribution(finite),
            "finite": len(finite) == len(rewards),
            "zero_fraction": 1 - nonzero,
            "samples_per_reward": 1 / nonzero if nonzero else None,
            "steps_between_rewards": _distribution(gaps),
            "outliers": _outliers(finite),
            "histogram": _histogram(finite),
        }

    def episodes_report(self) -> dict[str, Any]:
        returns, lengths = self.samples()[1:]
        return {
            "count": len(self.episodes),
            "terminated": sum(record.terminated for record in self.episodes),
            "truncated": sum(not record.terminated for record in self.episodes),
            "return": _distribution(returns),
            "length": _distribution(lengths),
        }

    def transitions_report(self) -> dict[str, float]:
        """How much of what the envs show is new: in all, and among what they show at one moment."""
        every = [mark for row in self.transitions for mark in row]
        at_once = [len(set(row)) / len(row) for row in self.transitions]
        return {"distinct": len(set(every)) / len(every), "distinct_at_once": float(np.mean(at_once))}

    def samples(self) -> tuple[Floats, Floats, Floats]:
        """Rewards, returns and lengths, those that are numbers."""
        returns = np.array([record.raw_return for record in self.episodes], np.float64)
        lengths = np.array([record.length for record in self.episodes], np.float64)
        rewards = np.concatenate(self.rewards).astype(np.float64)
        return rewards[np.isfinite(rewards)], returns[np.isfinite(returns)], lengths


def _play(env: VecEnv, steps: int, seed: int, deviations: dict[str, Any], tick: Tick) -> Seen:
    seen = Seen(deviations)
    rng = np.random.default_rng(derive_seed(seed, "audit"))
    env.action_space.seed(derive_seed(seed, "audit"))
    batch = env.reset(derive_seed(seed, "train"))
    for _ in range(steps):
        before = seen.rounded(batch.obs)
        actions = random_actions(env, batch.mask, rng)
        batch = env.step(actions)
        ended = batch.terminated | batch.truncated
        after = [
            np.where(ended.reshape(-1, *[1] * (last.ndim - 1)), last, now)
            for last, now in zip(seen.rounded(batch.final_obs), seen.rounded(batch.obs), strict=True)
        ]
        rows = range(env.n_envs)
        seen.transitions.append([_print(*(leaf[i] for leaf in (*before, actions, *after))) for i in rows])
        seen.rewards.append(batch.reward.copy())
        seen.episodes += batch.episodes
        tick()
    return seen


def _print(*arrays: Any) -> bytes:
    """A short mark of some arrays: the same for the same numbers, another for others."""
    mark = blake2b(digest_size=8)
    for array in arrays:
        mark.update(np.ascontiguousarray(array).tobytes())
    return mark.digest()


def _distribution(values: Any) -> dict[str, float | None]:
    names = ("mean", "std", "min", "q25", "median", "q75", "max")
    if not len(values):
        return dict.fromkeys(names)
    array = np.asarray(values, np.float64)
    numbers = [array.mean(), array.std(), *np.quantile(array, [0, 0.25, 0.5, 0.75, 1])]
    return dict(zip(names, map(float, numbers), strict=True))


def _outliers(rewards: Floats) -> dict[str, Any]:
    """Rewards that are many deviations away from the mean."""
    std = float(rewards.std()) if len(rewards) else 0.0
    away = np.abs(rewards - rewards.mean()) / std if std > 0 else np.zeros(len(rewards))
    count = int((away > FAR).sum())
    furthest = float(away.max()) if len(away) else 0.0
    return {"beyond": FAR, "count": count, "fraction": count / max(1, len(away)), "furthest": furthest}


def _histogram(rewards: Floats) -> list[dict[str, Any]]:
    """From the least to the greatest: a bar for each value where they are few, else for each of some bins."""
    values, counts = np.unique(rewards, return_counts=True)
    if len(values) <= VALUES:
        return [{"low": v, "high": v, "count": n} for v, n in zip(values.tolist(), counts.tolist(), strict=True)]
    counts, edges = np.histogram(rewards, BINS)
    bins = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [{"low": low, "high": high, "count": n} for low, high, n in bins]


def _warnings(data: dict[str, Any], config: RunConfig) -> list[str]:
    """What a user should look at."""
    reward, seeding, parallel, n_envs = data["reward"], data["seeding"], data["parallel"], data["n_envs"]
    found = []
    if not reward["finite"]:
        found.append("a reward is not finite: training on it cannot work")
    if not seeding["same_seed_same"]:
        step = seeding["differs_from_step"]
        found.append(f"the same seed and actions gave something else from step {step} on: no run can be repeated")
    alike = parallel["trajectories"]
    if n_envs > 1 and alike < n_envs:
        which = f"all {n_envs} envs run" if alike == 1 else f"only {alike} of {n_envs} envs differ; the others run"
        why = "" if seeding["other_seed_differs"] else ", whatever the seed"
        found.append(f"{which} the same under the same actions{why}: only the agent's own chance tells them apart")
    elif not seeding["other_seed_differs"]:
        found.append("another seed changes nothing under the same actions: every episode is the same task")
    if reward["samples_per_reward"] is None:
        found.append("random actions met no reward at all: expect a slow start, or shape it")
    elif reward["samples_per_reward"] > RARE:
        found.append(f"rewards are rare: {reward['samples_per_reward']:,.0f} samples for one")
    tamed = config.agent.normalize_reward or config.env.reward.clip is not None
    dense = reward["zero_fraction"] < 0.5  # a rare reward is far from a mean of zeros, and no outlier of its kind
    if reward["outliers"]["furthest"] > EXTREME and dense and not tamed:
        found.append(
            f"a reward is {reward['outliers']['furthest']:.0f} deviations away from the mean:"
            " consider agent.normalize_reward or env.reward.clip"
        )
    if not data["episodes"]["count"]:
        found.append("no episode ended: ask for more --steps; if none ever does, set env.max_episode_steps")
    return found
