"""`gymnast envs audit`: whether an env can be learned from: rewards, episodes, and whether its copies differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.config import RunConfig
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_training_vec
from gymnast.envs.types import EpisodeRecord, Obs, StepBatch, VecEnv
from gymnast.play.random_actions import same_actions
from gymnast.verbs.envs.play import distribution, endings, fingerprint, random_steps
from gymnast.verbs.extras import check_picture
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.result import Facts
from gymnast.verbs.train import resolve_config

PROBE = 200  # vector steps of each comparison between two seeds
FAR = 5.0  # standard deviations from the mean, beyond which a reward is an outlier
EXTREME = 20.0  # standard deviations that bend gradients
RARE = 1000  # samples for one reward
FINENESS = 100  # parts of a component's standard deviation, within which two observations count as one
VALUES, BINS = 12, 15  # a bar for each value if there are no more of them, else for each bin

Floats = NDArray[np.float64]


def audit_env(
    target: str,
    overrides: Sequence[str],
    steps: int,
    seed: int | None = None,
    picture: Path | None = None,
    progress: Progress = SILENT,
) -> Facts:
    if picture is not None:
        check_picture("--picture", picture)
    resolved = resolve_config(target, overrides)
    config = resolved.config
    root = config.train.seed if seed is None else seed
    env = make_training_vec(config)
    length = min(steps, PROBE)
    progress.step("stepping")
    progress.plan(4 * length + steps)
    try:
        first, again, other, unlike = (
            _probe(env, derive_seed(root, "audit", name), derive_seed(root, actions), length, progress)
            for name, actions in (("one", "actions"), ("one", "actions"), ("other", "actions"), ("one", "others"))
        )
        seen = _play(env, steps, root, first.stds(), progress)
    finally:
        env.close()
    differs = [step for step, (a, b) in enumerate(zip(first.prints, again.prints, strict=True)) if a != b]
    data: dict[str, Any] = {
        "target": resolved.target,
        "env": config.env.id,
        "engine": env.engine,
        "n_envs": env.n_envs,
        "seed": root,
        "steps": steps * env.n_envs,
        **seen.report(),
        "parallel": {  # how many envs differ under the same actions
            "steps": len(first.prints) - 1,
            "first_observations": len(set(first.prints[0])),
            "trajectories": len(set(zip(*first.prints, strict=True))),
        },
        "seeding": {
            "same_seed_same": not differs,
            "differs_from_step": differs[0] if differs else None,
            "other_seed_differs": first.prints != other.prints,
        },
        "other_actions_differ": first.outcomes != unlike.outcomes,  # in rewards and ends
        "picture": picture,
    }
    if picture is not None:
        from gymnast.report.charts.figure import save_histograms

        subjects = ("reward of a step", "return of an episode", "length of an episode")
        title = f"{resolved.target}: {data['steps']:,} steps of random actions"
        save_histograms(picture, title, dict(zip(subjects, seen.samples(), strict=True)))
    return Facts(data | {"warnings": _warnings(data, config)})


@dataclass
class Probe:
    """The same actions in every env: the agent causes no difference between them, nor between two probes."""

    prints: list[list[bytes]] = field(default_factory=list)  # of all that an env gave, by step and env
    outcomes: list[bytes] = field(default_factory=list)  # of rewards and ends alone, by step
    obs: list[Obs] = field(default_factory=list)

    def add(self, batch: StepBatch) -> None:
        rest = np.stack([batch.reward, batch.terminated, batch.truncated], axis=1)
        self.prints.append([fingerprint(*(leaf[i] for leaf in batch.obs.values()), rest[i]) for i in range(len(rest))])
        self.outcomes.append(fingerprint(rest))
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

    rewards: list[NDArray[np.float32]] = field(default_factory=list)  # [envs] each
    episodes: list[EpisodeRecord] = field(default_factory=list)
    transitions: list[list[bytes]] = field(default_factory=list)  # by step and env

    def report(self) -> dict[str, Any]:
        rewards, returns, lengths = self.samples()
        table = np.array(self.rewards, np.float64)  # [steps, envs]
        nonzero = float((table != 0).mean())
        gaps = [gap for column in table.T for gap in np.diff(np.flatnonzero(column)).tolist()]
        marks = [mark for row in self.transitions for mark in row]
        return {
            "reward": {  # of all steps, as the learner gets them before its own scaling
                **distribution(rewards),
                "finite": len(rewards) == table.size,
                "zero_fraction": 1 - nonzero,
                "samples_per_reward": 1 / nonzero if nonzero else None,
                "steps_between_rewards": distribution(gaps),
                "outliers": _outliers(rewards),
                "histogram": _histogram(rewards),
            },
            "episodes": {
                "count": len(self.episodes),
                **endings(self.episodes),
                "return": distribution(returns),
                "length": distribution(lengths),
                "components": {  # named parts of the learner's return
                    name: distribution([record.components.get(name, 0.0) for record in self.episodes])
                    for name in dict.fromkeys(name for record in self.episodes for name in record.components)
                },
            },
            "transitions": {  # shares of what is new: of all, and of those at one moment
                "distinct": len(set(marks)) / len(marks),
                "distinct_at_once": float(np.mean([len(set(row)) / len(row) for row in self.transitions])),
            },
        }

    def samples(self) -> tuple[Floats, Floats, Floats]:
        """Rewards, returns and lengths, those that are numbers."""
        returns = np.array([record.raw_return for record in self.episodes], np.float64)
        lengths = np.array([record.length for record in self.episodes], np.float64)
        rewards = np.concatenate(self.rewards).astype(np.float64)
        return rewards[np.isfinite(rewards)], returns[np.isfinite(returns)], lengths


def _play(env: VecEnv, steps: int, seed: int, stds: dict[str, Any], progress: Progress) -> Seen:
    seen = Seen()
    before: list[Any] = []
    for actions, batch, _ in random_steps(env, steps, seed, "audit", progress):
        now = _rounded(batch.obs, stds)
        if actions is not None:
            ended = batch.terminated | batch.truncated
            after = [
                np.where(ended.reshape(-1, *[1] * (last.ndim - 1)), last, new)
                for last, new in zip(_rounded(batch.final_obs, stds), now, strict=True)
            ]
            rows = range(env.n_envs)
            seen.transitions.append([fingerprint(*(leaf[i] for leaf in (*before, actions, *after))) for i in rows])
            seen.rewards.append(batch.reward.copy())
            seen.episodes += batch.episodes
        before = now
    return seen


def _rounded(obs: Obs, stds: dict[str, Any]) -> list[Any]:
    """Leaves without differences that are small compared with the component's standard deviation."""
    with np.errstate(invalid="ignore"):
        return [
            np.rint(leaf / stds[name] * FINENESS).astype(np.float32) + np.float32(0.0) if name in stds else leaf.copy()
            for name, leaf in obs.items()  # + 0: no -0
        ]


def _outliers(rewards: Floats) -> dict[str, Any]:
    std = float(rewards.std()) if len(rewards) else 0.0
    away = np.abs(rewards - rewards.mean()) / std if std > 0 else np.zeros(len(rewards))
    count = int((away > FAR).sum())
    furthest = float(away.max()) if len(away) else 0.0
    return {"beyond": FAR, "count": count, "fraction": count / max(1, len(away)), "furthest": furthest}


def _histogram(rewards: Floats) -> list[dict[str, Any]]:
    """From the least to the greatest: a bar for each value where they are few, else for each of some bins."""
    values, counts = np.unique(rewards, return_counts=True)
    lows = highs = values
    if len(values) > VALUES:
        counts, edges = np.histogram(rewards, BINS)
        lows, highs = edges[:-1], edges[1:]
    bars = zip(lows.tolist(), highs.tolist(), counts.tolist(), strict=True)
    return [{"low": low, "high": high, "count": count} for low, high, count in bars]


def _warnings(data: dict[str, Any], config: RunConfig) -> list[str]:
    """What a user should look at."""
    reward, seeding, n_envs = data["reward"], data["seeding"], data["n_envs"]
    found = []
    if not reward["finite"]:
        found.append("a reward is not finite: training on it cannot work")
    if not seeding["same_seed_same"]:
        step = seeding["differs_from_step"]
        found.append(f"the same seed and actions gave something else from step {step} on: no run can be repeated")
    alike = data["parallel"]["trajectories"]
    if n_envs > 1 and alike < n_envs:
        which = f"all {n_envs} envs run" if alike == 1 else f"only {alike} of {n_envs} envs differ; the others run"
        why = "" if seeding["other_seed_differs"] else ", whatever the seed"
        found.append(f"{which} the same under the same actions{why}: only the agent's sampling tells them apart")
    elif not seeding["other_seed_differs"]:
        found.append("another seed changes nothing under the same actions: every episode is the same task")
    if seeding["same_seed_same"] and not data["other_actions_differ"]:
        steps = data["parallel"]["steps"]
        found.append(f"other actions changed no reward and no end in {steps} steps: what is done may not matter at all")
    samples, furthest = reward["samples_per_reward"], reward["outliers"]["furthest"]
    if samples is None:
        found.append("random actions met no reward at all: expect a slow start, or shape it")
    elif samples > RARE:
        found.append(f"rewards are rare: {samples:,.0f} samples for one")
    tamed = config.agent.normalize_reward or config.env.reward.clip is not None
    dense = reward["zero_fraction"] < 0.5  # a rare reward is far from a mean of zeros, and no outlier of its kind
    if furthest > EXTREME and dense and not tamed:
        found.append(
            f"a reward is {furthest:.0f} standard deviations away from the mean:"
            " consider agent.normalize_reward or env.reward.clip"
        )
    if not data["episodes"]["count"]:
        found.append("no episode ended: ask for more --steps; if none ever does, set env.max_episode_steps")
    return found
