"""`gymnast envs audit`: what there is to learn from in an env. Rewards, episodes, and whether its copies differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.config import RunConfig
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_training_vec
from gymnast.envs.types import EpisodeRecord, Obs, StepBatch, VecEnv
from gymnast.verbs.envs.results import (
    Bin,
    Distribution,
    Episodes,
    Outliers,
    Parallel,
    Rewards,
    Seeding,
    Transitions,
)
from gymnast.verbs.picture import check_picture
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.random_actions import random_actions, same_actions
from gymnast.verbs.train import resolve_config

PROBE = 200  # vector steps of each comparison between two seeds
FAR = 5.0  # standard deviations from the mean, beyond which a reward is an outlier
EXTREME = 20.0  # standard deviations that bend gradients
RARE = 1000  # samples for one reward
FINENESS = 100  # parts of a component's standard deviation, within which two observations count as one
VALUES, BINS = 12, 15  # a bar for each value if there are no more of them, else for each bin

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EnvAudit:
    target: str
    env: str
    engine: str
    n_envs: int
    seed: int
    steps: int  # of all envs
    reward: Rewards
    episodes: Episodes
    transitions: Transitions
    parallel: Parallel
    seeding: Seeding
    warnings: list[str]
    picture: str | None  # that was written

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"reward": self.reward.to_json(), "episodes": self.episodes.to_json()}


def audit_env(
    target: str,
    overrides: Sequence[str],
    steps: int,
    seed: int | None = None,
    picture: Path | None = None,
    progress: Progress = SILENT,
) -> EnvAudit:
    if picture is not None:
        check_picture("--picture", picture)
    resolved = resolve_config(target, overrides)
    config = resolved.config
    root = config.train.seed if seed is None else seed
    env = make_training_vec(config)
    length = min(steps, PROBE)
    progress.step("stepping")
    progress.plan(3 * length + steps)
    try:
        first, again, other = (
            _probe(env, derive_seed(root, "audit", name), derive_seed(root, "actions"), length, progress)
            for name in ("one", "one", "other")
        )
        seen = _play(env, steps, root, first.stds(), progress)
    finally:
        env.close()
    differs = [step for step, (a, b) in enumerate(zip(first.prints, again.prints, strict=True)) if a != b]
    audit = EnvAudit(
        target=resolved.target,
        env=config.env.id,
        engine=env.engine,
        n_envs=env.n_envs,
        seed=root,
        steps=steps * env.n_envs,
        reward=seen.rewards_report(),
        episodes=seen.episodes_report(),
        transitions=seen.transitions_report(),
        parallel=Parallel(len(first.prints) - 1, len(set(first.prints[0])), len(set(zip(*first.prints, strict=True)))),
        seeding=Seeding(not differs, differs[0] if differs else None, first.prints != other.prints),
        warnings=[],
        picture=None if picture is None else str(picture),
    )
    if picture is not None:
        from gymnast.report.charts.figure import save_histograms

        subjects = ("reward of a step", "return of an episode", "length of an episode")
        title = f"{audit.target}: {audit.steps:,} steps of random actions"
        save_histograms(picture, title, dict(zip(subjects, seen.samples(), strict=True)))
    return replace(audit, warnings=_warnings(audit, config))


@dataclass
class Probe:
    """The same actions in every env: the agent causes no difference between them, nor between two probes."""

    prints: list[list[bytes]] = field(default_factory=list)  # of all that an env gave, by step and env
    obs: list[Obs] = field(default_factory=list)

    def add(self, batch: StepBatch) -> None:
        rest = np.stack([batch.reward, batch.terminated, batch.truncated], axis=1)
        self.prints.append([_print(*(leaf[i] for leaf in batch.obs.values()), rest[i]) for i in range(len(rest))])
        self.obs.append({name: leaf.copy() for name, leaf in batch.obs.items() if leaf.dtype.kind == "f"})

    def stds(self) -> dict[str, Any]:
        """Standard deviation of each component of real-valued observations; 1 where one never moves."""
        stds = {name: np.concatenate([obs[name] for obs in self.obs]).std(axis=0) for name in self.obs[0]}
        return {name: np.where(np.isfinite(std) & (std > 0), std, 1.0) for name, std in stds.items()}


def _probe(env: VecEnv, seed: int, actions_seed: int, steps: int, progress: Progress) -> Probe:
    probe = Probe()
    batch = env.reset(seed)
    probe.add(batch)
    for step in range(steps):
        batch = env.step(same_actions(env, batch.mask, derive_seed(actions_seed, step)))
        probe.add(batch)
        progress.done()
    return probe


@dataclass
class Seen:
    """What came out of an env under random actions."""

    stds: dict[str, Any]  # of the observations' components
    rewards: list[NDArray[np.float32]] = field(default_factory=list)  # [envs] each
    episodes: list[EpisodeRecord] = field(default_factory=list)
    transitions: list[list[bytes]] = field(default_factory=list)  # by step and env

    def rounded(self, obs: Obs) -> list[Any]:
        """Leaves without differences that are small beside the component's standard deviation."""
        with np.errstate(invalid="ignore"):
            return [
                np.rint(leaf / self.stds[name] * FINENESS).astype(np.float32) + np.float32(0.0)  # no -0
                if name in self.stds
                else leaf.copy()
                for name, leaf in obs.items()
            ]

    def rewards_report(self) -> Rewards:
        table = np.array(self.rewards, np.float64)  # [steps, envs]
        rewards = table.ravel()
        finite = self.samples()[0]
        nonzero = float((rewards != 0).mean())
        gaps = [gap for column in table.T for gap in np.diff(np.flatnonzero(column)).tolist()]
        return Rewards(
            each=Distribution.of(finite),
            finite=len(finite) == len(rewards),
            zero_fraction=1 - nonzero,
            samples_per_reward=1 / nonzero if nonzero else None,
            steps_between_rewards=Distribution.of(gaps),
            outliers=_outliers(finite),
            histogram=_histogram(finite),
        )

    def episodes_report(self) -> Episodes:
        terminated = sum(record.terminated for record in self.episodes)
        returns, lengths = map(Distribution.of, self.samples()[1:])
        return Episodes(len(self.episodes), terminated, len(self.episodes) - terminated, returns, lengths)

    def transitions_report(self) -> Transitions:
        every = [mark for row in self.transitions for mark in row]
        at_once = [len(set(row)) / len(row) for row in self.transitions]
        return Transitions(len(set(every)) / len(every), float(np.mean(at_once)))

    def samples(self) -> tuple[Floats, Floats, Floats]:
        """Rewards, returns and lengths, those that are numbers."""
        returns = np.array([record.raw_return for record in self.episodes], np.float64)
        lengths = np.array([record.length for record in self.episodes], np.float64)
        rewards = np.concatenate(self.rewards).astype(np.float64)
        return rewards[np.isfinite(rewards)], returns[np.isfinite(returns)], lengths


def _play(env: VecEnv, steps: int, seed: int, stds: dict[str, Any], progress: Progress) -> Seen:
    seen = Seen(stds)
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
        progress.done()
    return seen


def _print(*arrays: Any) -> bytes:
    """A short mark of some arrays: the same for the same numbers, another for others."""
    mark = blake2b(digest_size=8)
    for array in arrays:
        mark.update(np.ascontiguousarray(array).tobytes())
    return mark.digest()


def _outliers(rewards: Floats) -> Outliers:
    std = float(rewards.std()) if len(rewards) else 0.0
    away = np.abs(rewards - rewards.mean()) / std if std > 0 else np.zeros(len(rewards))
    count = int((away > FAR).sum())
    return Outliers(FAR, count, count / max(1, len(away)), float(away.max()) if len(away) else 0.0)


def _histogram(rewards: Floats) -> list[Bin]:
    """From the least to the greatest: a bar for each value where they are few, else for each of some bins."""
    values, counts = np.unique(rewards, return_counts=True)
    if len(values) <= VALUES:
        return [Bin(value, value, count) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]
    counts, edges = np.histogram(rewards, BINS)
    return [Bin(*found) for found in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)]


def _warnings(audit: EnvAudit, config: RunConfig) -> list[str]:
    """What a user should look at."""
    reward, seeding, n_envs = audit.reward, audit.seeding, audit.n_envs
    found = []
    if not reward.finite:
        found.append("a reward is not finite: training on it cannot work")
    if not seeding.same_seed_same:
        step = seeding.differs_from_step
        found.append(f"the same seed and actions gave something else from step {step} on: no run can be repeated")
    alike = audit.parallel.trajectories
    if n_envs > 1 and alike < n_envs:
        which = f"all {n_envs} envs run" if alike == 1 else f"only {alike} of {n_envs} envs differ; the others run"
        why = "" if seeding.other_seed_differs else ", whatever the seed"
        found.append(f"{which} the same under the same actions{why}: only the agent's sampling tells them apart")
    elif not seeding.other_seed_differs:
        found.append("another seed changes nothing under the same actions: every episode is the same task")
    if reward.samples_per_reward is None:
        found.append("random actions met no reward at all: expect a slow start, or shape it")
    elif reward.samples_per_reward > RARE:
        found.append(f"rewards are rare: {reward.samples_per_reward:,.0f} samples for one")
    tamed = config.agent.normalize_reward or config.env.reward.clip is not None
    dense = reward.zero_fraction < 0.5  # a rare reward is far from a mean of zeros, and no outlier of its kind
    if reward.outliers.furthest > EXTREME and dense and not tamed:
        found.append(
            f"a reward is {reward.outliers.furthest:.0f} standard deviations away from the mean:"
            " consider agent.normalize_reward or env.reward.clip"
        )
    if not audit.episodes.count:
        found.append("no episode ended: ask for more --steps; if none ever does, set env.max_episode_steps")
    return found
