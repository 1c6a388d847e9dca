"""Rules between keys, by domain. Each problem shows its arithmetic and the fix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import ValidationError

from gymnast.config.fields import RuleProblem
from gymnast.core.registry import ENCODERS, EXTENSIONS, SINKS

if TYPE_CHECKING:
    from gymnast.config.schema import RunConfig


MOST_WEIGHTS = 2**28  # a gigabyte


def rule_problems(config: RunConfig) -> list[RuleProblem]:
    return [problem for rule in RULES for problem in rule(config)]


def _sizes(config: RunConfig) -> Iterator[RuleProblem]:
    algo, rollout, total = config.algo, config.rollout_steps, config.train.total_timesteps
    product = f"{config.env.n_envs} x {algo.n_steps} = {rollout}"
    if total < rollout:
        yield RuleProblem(
            ("train.total_timesteps", "env.n_envs", "algo.n_steps"),
            f"{total} is less than one rollout of {product} steps (env.n_envs x algo.n_steps)."
            f" Use at least {rollout}, or a smaller algo.n_steps.",
        )
    _, size = algo.passes(rollout)
    if rollout % size:
        yield RuleProblem(
            ("algo.batch_size", "env.n_envs", "algo.n_steps"),
            f"{size} does not divide the rollout of {product} samples. Use one of {_divisors(rollout, size, 2)}.",
        )
    by_batch = algo.normalize_advantage == "batch"
    if algo.normalize_advantage != "off" and (size if by_batch else rollout) == 1:
        key = "algo.batch_size" if size < rollout or (hasattr(algo, "batch_size") and by_batch) else "algo.n_steps"
        yield RuleProblem(
            (key, "algo.normalize_advantage"),
            "1 sample has no standard deviation to normalise by. Use at least 2, or algo.normalize_advantage=off.",
        )


def _algorithm(config: RunConfig) -> Iterator[RuleProblem]:
    yield from config.algo.problems(config)
    names = [spec.name for spec in config.algo.extensions]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield RuleProblem(("algo.extensions",), f"{name!r} is listed twice. Name each extension once.")
    for spec in config.algo.extensions:
        if problem := EXTENSIONS.problem(spec.name):
            yield RuleProblem(("algo.extensions",), problem)
            continue
        try:
            EXTENSIONS.get(spec.name).Settings.model_validate(spec.kwargs)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            yield RuleProblem(("algo.extensions",), f"{spec.name}: {key}: {first['msg']}.")


def _divisors(number: int, near: int, most: int) -> str:
    """The divisors of a number on either side of another, at most so many on each."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    divisors = sorted({*small, *(number // d for d in small)})
    return ", ".join(map(str, [d for d in divisors if d < near][-most:] + [d for d in divisors if d > near][:most]))


def _agent(config: RunConfig) -> Iterator[RuleProblem]:
    agent, (_, size) = config.agent, config.algo.passes(config.rollout_steps)
    length, steps = agent.sequence_length, config.algo.n_steps
    if agent.memory is None:
        for key in ("memory_size", "sequence_length"):
            if getattr(agent, key) != type(agent).model_fields[key].default:
                text = "only a memory has it, and agent.memory is null. Set agent.memory=lstm or gru, or drop this key."
                yield RuleProblem((f"agent.{key}", "agent.memory"), text)
    elif steps % length:
        yield RuleProblem(
            ("agent.sequence_length", "algo.n_steps"),
            f"{length} does not divide algo.n_steps={steps}. Use one of {_divisors(steps, length, 1)}.",
        )
    elif size % length:
        yield RuleProblem(
            ("algo.batch_size", "agent.sequence_length"),
            f"{size} samples are not whole sequences of agent.sequence_length={length}. Use a multiple of it.",
        )
    if agent.forget_bias and agent.memory != "lstm":
        text = "only an LSTM has forget gates. Set agent.memory=lstm, or drop this key."
        yield RuleProblem(("agent.forget_bias", "agent.memory"), text)
    if agent.layer_norm and agent.batch_norm:
        text = "agent.layer_norm is true as well. Choose one of the two."
        yield RuleProblem(("agent.batch_norm", "agent.layer_norm"), text)
    if agent.normalize_pictures and agent.encoder in ("mlp", "board_cnn"):
        text = f"agent.encoder={agent.encoder} has none. Use small_cnn, nature_cnn or impala_cnn, or drop this key."
        yield RuleProblem(("agent.normalize_pictures", "agent.encoder"), text)
    layers = [*agent.hidden, *([agent.memory_size] * 2 if agent.memory else [])]
    if (weights := sum(a * b for a, b in pairwise(layers))) > MOST_WEIGHTS:
        text = f"layers of {layers} have {weights:,} weights, and {MOST_WEIGHTS:,} are the most. Use smaller ones."
        yield RuleProblem(("agent.hidden", "agent.memory_size"), text)
    rate = getattr(config.algo, "critic_learning_rate", None)
    for key, value in (("agent.critic_hidden", agent.critic_hidden), ("algo.critic_learning_rate", rate)):
        if agent.shared and value is not None:
            text = "actor and critic share their network (agent.shared). Set agent.shared=false, or drop this key."
            yield RuleProblem((key, "agent.shared"), text)
    if agent.sde_sample_freq is not None and agent.std != "sde":
        yield RuleProblem(
            ("agent.sde_sample_freq", "agent.std"),
            f"only the noise of agent.std=sde lasts, and it is {agent.std}. Use agent.std=sde, or drop this key.",
        )


def _stop(config: RunConfig) -> Iterator[RuleProblem]:
    if config.stop.plateau is not None and config.eval_every == 0:
        yield RuleProblem(
            ("stop.plateau", "eval.every"),
            "a plateau is seen by evaluations, and eval.every is 0 (never). Set eval.every, or drop stop.plateau.",
        )


def _names(config: RunConfig) -> Iterator[RuleProblem]:
    if problem := ENCODERS.problem(config.agent.encoder):
        yield RuleProblem(("agent.encoder",), problem)
    for index, sink in enumerate(config.log.sinks):
        if problem := SINKS.problem(sink):
            yield RuleProblem(("log.sinks",), problem)
        elif sink in config.log.sinks[:index]:
            yield RuleProblem(("log.sinks",), f"{sink!r} is listed twice. Name each sink once.")


def _env(config: RunConfig) -> Iterator[RuleProblem]:
    """What is known about wrappers, kwargs and extra rewards is imported only where one is used: it takes gymnasium."""
    from gymnast.envs.suites import suite_of

    env = config.env
    sections = {"env": env} if config.eval.env is None else {"env": env, "eval.env": config.eval_env}
    if any(cfg.wrappers for cfg in sections.values()):
        from gymnast.envs import wrappers
    for section, cfg in sections.items():
        for spec in cfg.wrappers:
            for problem in wrappers.problems(spec.name, spec.kwargs):
                yield RuleProblem((f"{section}.wrappers",), problem)
        for problem in suite_of(cfg.id).problems(cfg.kwargs):
            yield RuleProblem((f"{section}.kwargs",), problem)
    if env.shaping:
        from gymnast.envs.shaping.components import shaping_problems

        for problem in shaping_problems(env.id, env.shaping):
            yield RuleProblem(("env.shaping",), problem)


RULES = (_sizes, _algorithm, _agent, _stop, _names, _env)
