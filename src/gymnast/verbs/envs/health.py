"""Whether an env can be trained on: its train and eval envs are built, stepped, seeded, reset and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gymnast.config import EnvConfig, RunConfig
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.make import choose_engine, make_training_vec, make_vec
from gymnast.envs.suites import find_spec
from gymnast.envs.suites.base import draws
from gymnast.envs.types import StepBatch, VecEnv
from gymnast.play.random_actions import random_actions
from gymnast.play.stage import Stage
from gymnast.verbs.envs.play import fingerprint
from gymnast.verbs.result import Facts

N_ENVS = 2  # of those that training has
SHORT = 20  # raw steps of the episode that is played to its end: fewer than the time limit of any env
SEEDS = (1, 2)


@dataclass(frozen=True)
class Checked(Facts):
    """Of one env or of several; `problems` has a line for everything that failed."""

    @property
    def exit_code(self) -> int:
        return 1 if self.data["problems"] else 0


@dataclass
class Health:
    """What was found of one env."""

    engine: str = ""
    eval_engine: str = ""
    episodes: int = 0  # that ended by themselves
    repeats: bool | None = None  # the same seed gives the same observations; None: not known
    varies: bool | None = None  # another seed gives others
    picture: tuple[int, int] | None = None  # height and width; None: it draws none
    problems: list[str] = field(default_factory=list)


def check_health(config: RunConfig, steps: int) -> Health:
    """Of every env that the config trains in; what is not a problem is of the last one."""
    health = Health()
    for part in config.parts:
        where = "" if part is config else f"{part.env.id}: "
        for check in (_train_and_eval, _end_and_picture):
            try:
                for problem in check(part, steps, health):
                    health.problems.append(where + problem)
            except (UserError, EnvFailure) as error:
                health.problems.append(where + str(error).partition("\n")[0])
    return health


def _train_and_eval(config: RunConfig, steps: int, health: Health) -> Iterator[str]:
    """One factory builds both roles. Both are stepped three times: with a seed, with the same one, and with another."""
    health.engine, _ = choose_engine(config.env, config.env.n_envs)
    health.eval_engine, _ = choose_engine(config.eval_env, config.eval_n_envs, role="eval")
    training = config.model_copy(update={"env": _on(config.env, health.engine)})
    train = make_training_vec(training)
    try:
        spaces = train.obs_space, train.action_space
        yield from _seeds("train", train, steps, health)
    finally:
        train.close()
    scored = make_vec(_on(config.eval_env, health.eval_engine), N_ENVS, "eval")
    try:
        if spaces != (scored.obs_space, scored.action_space):
            yield f"train has {spaces}, eval {(scored.obs_space, scored.action_space)}"
        yield from _seeds("eval", scored, steps // 4, health)
    finally:
        scored.close()


def _seeds(role: str, env: VecEnv, steps: int, health: Health) -> Iterator[str]:
    one, again, other = (_trace(env, seed, steps, health) for seed in (SEEDS[0], *SEEDS))
    differs = [step for step, (a, b) in enumerate(zip(one, again, strict=True)) if a != b]
    health.repeats = not differs and health.repeats is not False
    health.varies = one != other or bool(health.varies)
    if differs:
        yield f"{role}: the same seed and actions gave something else from step {differs[0]} on"


def _on(cfg: EnvConfig, engine: str) -> EnvConfig:
    return cfg.model_copy(update={"engine": engine, "n_envs": N_ENVS})


def _trace(env: VecEnv, seed: int, steps: int, health: Health) -> list[bytes]:
    """Marks of all that came out of the env, under actions that are the same for the same masks."""
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    batch = env.reset(seed)
    marks = [_mark(batch)]
    for _ in range(steps):
        batch = env.step(random_actions(env, batch.mask, rng))
        marks.append(_mark(batch))
        health.episodes += len(batch.episodes)
    return marks


def _mark(batch: StepBatch) -> bytes:
    return fingerprint(*batch.obs.values(), batch.reward, batch.terminated, batch.truncated)


def _end_and_picture(config: RunConfig, steps: int, health: Health) -> Iterator[str]:
    """An episode on the path of videos, to its end, and the same one again."""
    cfg = config.eval_env.model_copy(update={"max_episode_steps": SHORT})
    drawn = draws(find_spec(cfg.id))
    stage = _stage(cfg) if drawn else None
    env: VecEnv = make_vec(_on(cfg, "sync"), 1, "eval") if stage is None else stage.engine
    try:
        first, ended = fingerprint(*env.reset(SEEDS[0]).obs.values()), False
        env.action_space.seed(0)
        batch, rng = env.reset(SEEDS[0]), np.random.default_rng(0)
        for _ in range(SHORT):
            batch = env.step(random_actions(env, batch.mask, rng))
            ended = ended or bool(batch.episodes)
        if not ended:
            yield f"env.max_episode_steps={SHORT} did not end an episode"
        if first != fingerprint(*env.reset(SEEDS[0]).obs.values()):
            yield "after an end, the same seed does not begin the same episode again"
        if stage is not None:
            yield from _picture(stage, health)
    finally:
        env.close()


def _stage(cfg: EnvConfig) -> Stage:
    return Stage(RunConfig(env=cfg.model_copy(update={"n_envs": 1})), 1)


def _picture(stage: Stage, health: Health) -> Iterator[str]:
    picture: Any = stage.envs[0].picture
    health.picture = picture.shape[0], picture.shape[1]
    if picture.size == 0 or picture.max() == picture.min():
        yield f"its picture of {picture.shape[0]} x {picture.shape[1]} pixels shows nothing: all have one colour"
