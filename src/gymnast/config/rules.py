"""Rules between keys, by domain. Each problem shows its arithmetic and the fix."""

from __future__ import annotations

import math
import re
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
            f"{size} does not divide the rollout of {product} samples.{_batches(config)}",
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


def _divisors(number: int, unit: int = 1) -> list[int]:
    """The divisors of a number that are multiples of the unit, the least first."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted(d for d in {*small, *(number // d for d in small)} if d % unit == 0)


def _nearest(values: list[int], wish: int) -> int:
    return min(values, key=lambda value: abs(value - wish))


def _advice(key: str, values: list[int], wish: int) -> str:
    """The nearest value, and its neighbours."""
    best = _nearest(values, wish)
    at = values.index(best)
    others = ", ".join(str(value) for value in values[max(at - 1, 0) : at + 2] if value != best)
    return f" Use --set {key}={best}{f' (or {others})' if others else ''}."


def _sequence(config: RunConfig) -> int:
    """Steps of a sequence that the rollout can be cut into: those of the config, or the nearest to them."""
    return _nearest(_divisors(config.algo.n_steps), config.agent.sequence_length)


def _batches(config: RunConfig) -> str:
    """Which batches fit: whole sequences of a memory, and at least two samples where they are normalised together."""
    algo, rollout = config.algo, config.rollout_steps
    fit = _divisors(rollout, _sequence(config) if config.agent.memory else 1)
    if algo.normalize_advantage == "batch" and len(fit) > 1:
        fit = [size for size in fit if size > 1]
    return _advice("algo.batch_size", fit, algo.passes(rollout)[1])


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
            f"{length} does not divide algo.n_steps={steps}."
            + _advice("agent.sequence_length", _divisors(steps), length),
        )
    if agent.memory and config.rollout_steps % size == 0 and size % (fits := _sequence(config)):
        yield RuleProblem(
            ("algo.batch_size", "agent.sequence_length"),
            f"{size} samples are not whole sequences of agent.sequence_length={fits}.{_batches(config)}",
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
    if agent.track and agent.encoder != "mlp":
        text = f"agent.encoder={agent.encoder} reads pictures, not the objects in them. Use mlp, or drop agent.track."
        yield RuleProblem(("agent.track", "agent.encoder"), text)
    if agent.track and config.tasks:
        text = "objects are found in the pictures of one task. Drop agent.track, or tasks."
        yield RuleProblem(("agent.track", "tasks"), text)
    if agent.track and not agent.hidden:
        text = "without hidden layers nothing is made of the objects that agent.track finds. Use [256, 256]."
        yield RuleProblem(("agent.hidden", "agent.track"), text)
    if agent.track and config.env.kwargs.get("observation") == "rgb":
        text = "agent.track compares grey pictures, and takes red, green and blue for three of them. Use grey."
        yield RuleProblem(("env.kwargs.observation", "agent.track"), text)
    if agent.track and config.env.kwargs.get("show_action") and not config.env.kwargs.get("actions"):
        text = "agent.track needs names for the marks. List env.kwargs.actions, or set show_action to false."
        yield RuleProblem(("env.kwargs.show_action", "agent.track"), text)
    layers = [*agent.hidden, *([agent.memory_size] * 2 if agent.memory else [])]
    if (weights := sum(a * b for a, b in pairwise(layers))) > MOST_WEIGHTS:
        text = f"layers of {layers} have {weights:,} weights, and {MOST_WEIGHTS:,} are the most. Use smaller ones."
        yield RuleProblem(("agent.hidden", "agent.memory_size"), text)
    rate = getattr(config.algo, "critic_learning_rate", None)
    for key, value in (("agent.critic_hidden", agent.critic_hidden), ("algo.critic_learning_rate", rate)):
        if agent.shared and value is not None:
            text = "actor and critic share their network (agent.shared). Set agent.shared=false, or drop this key."
            yield RuleProblem((key, "agent.shared"), text)
    if agent.sde_expln and agent.std != "sde":
        yield RuleProblem(
            ("agent.sde_expln", "agent.std"), "is for agent.std=sde. Use agent.std=sde, or drop this key."
        )
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
    sections |= {f"stages.{name}.env": stage.env.applied(env) for name, stage in config.stages.items()}
    sections |= {f"tasks[{number}].env": cfg for number, cfg in enumerate(config.task_envs)}
    if any(cfg.wrappers for cfg in sections.values()):
        from gymnast.envs import wrappers
    for section, cfg in sections.items():
        for spec in cfg.wrappers:
            for problem in wrappers.problems(spec.name, spec.kwargs):
                yield RuleProblem((f"{section}.wrappers",), problem)
        for problem in suite_of(cfg.id).problems(cfg.kwargs):
            # who set this key is to blame, not who set the rest
            leaf = problem.partition(" ")[0].partition("[")[0].rstrip(":,")
            yield RuleProblem((f"{section}.kwargs", f"{section}.kwargs.{leaf}"), problem)
    if env.shaping:
        from gymnast.envs.shaping.components import shaping_problems

        envs = [env, *(stage.env.applied(env) for stage in config.stages.values())]
        found = (problem for one in envs for problem in shaping_problems(one.id, one.kwargs, env.shaping))
        for problem in dict.fromkeys(found):
            yield RuleProblem(("env.shaping",), problem)


def _stages(config: RunConfig) -> Iterator[RuleProblem]:
    names, total = list(config.stages), config.train.total_timesteps
    if names and config.tasks:
        yield RuleProblem(("stages", "tasks"), "a run has stages or tasks, not both yet. Drop one of them.")
    for name, stage in config.stages.items():
        key, rule = f"stages.{name}.advance", stage.advance
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            text = "a stage's name has letters, digits, - and _ only, as metrics and files are named after it."
            yield RuleProblem((f"stages.{name}", "stages"), text)
        if name == names[-1]:
            if not stage.forgetting:
                text = "no stage comes after the last one, in which it could be forgotten. Drop this key."
                yield RuleProblem((f"stages.{name}.forgetting", "stages"), text)
            if rule is not None:
                text = "there is no stage after the last one, which ends by the rules in stop. Drop this key."
                yield RuleProblem((key, "stages"), text)
        elif rule is None or rule == type(rule)():
            text = f"what begins {names[names.index(name) + 1]!r} is missing. Set score, steps or plateau."
            yield RuleProblem((key, "stages"), text)
        elif config.eval_every == 0 and rule.steps is None:
            text = "scores and plateaus are seen by evaluations, and eval.every is 0 (never). Set eval.every, or steps."
            yield RuleProblem((key, "eval.every"), text)
    rules = [stage.advance for stage in config.stages.values() if stage.advance is not None]
    fixed = [rule.steps for rule in rules if rule.steps is not None and rule.score is None and rule.plateau is None]
    if sum(fixed) >= total:
        yield RuleProblem(
            ("train.total_timesteps", "stages"),
            f"{total} leaves no step for {names[-1]!r}: the stages before it take {sum(fixed)}"
            f" ({' + '.join(map(str, fixed))}). Use more steps, or fewer in the stages.",
        )


def _tasks(config: RunConfig) -> Iterator[RuleProblem]:
    """Several tasks share the run: each needs envs, a name, and goals of its own."""
    from gymnast.config.schema import shares_of

    if not config.tasks:
        return
    names = [task.name for task in config.tasks]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield RuleProblem(("tasks",), f"two tasks are called {name!r}. Give each a name of its own.")
    if 0 in config.task_shares:
        weights = [task.weight for task in config.tasks]
        enough = range(config.env.n_envs, math.ceil(sum(weights) / min(weights)) + 1)
        least = next(n for n in enough if 0 not in shares_of(n, weights))
        text = f"{config.env.n_envs} leave none for the task {names[config.task_shares.index(0)]!r} by its weight."
        yield RuleProblem(("env.n_envs", "tasks"), f"{text} Use at least {least}, or weights that differ less.")
    for key in ("threshold", "target", "lowest_return"):
        if getattr(config.stop, key) is not None:
            own = "lowest_return" if key == "lowest_return" else "threshold"
            text = f"each task has a {own} of its own. Set tasks[...].{own}, and null here."
            yield RuleProblem((f"stop.{key}", "tasks"), text)
    if config.stop.watch == "train":
        text = "a verdict on several tasks is called for by their evaluations. Use stop.watch=eval."
        yield RuleProblem(("stop.watch", "tasks"), text)
    if config.eval.env is not None:
        yield RuleProblem(("eval.env", "tasks"), "tasks are scored in their own envs. Drop one of the two.")


def _central(config: RunConfig) -> Iterator[RuleProblem]:
    """What `train.layout: central` cannot do is refused, and so are settings that nobody reads."""
    train, central = config.train, config.train.central
    fields = type(central).model_fields
    if train.layout == "lockstep":
        for key in (key for key, value in central if value != fields[key].default):
            text = "only train.layout=central has actors. Set train.layout=central, or drop this key."
            yield RuleProblem((f"train.central.{key}", "train.layout"), text)
        return
    if config.env.engine not in ("auto", "sync"):
        text = f"{config.env.engine} steps all envs in one place, and actors have some each. Use env.engine=auto."
        yield RuleProblem(("env.engine", "train.layout"), text)
    if (actors := central.n_actors) is not None and actors > config.env.n_envs:
        text = f"{actors} actors have nothing to do with env.n_envs={config.env.n_envs}. Use at most one an env."
        yield RuleProblem(("train.central.n_actors", "env.n_envs"), text)
    if config.tasks:
        yield RuleProblem(("train.layout", "tasks"), "central trains one task. Use train.layout=lockstep.")
    if central.mode == "exact":
        for key in ("max_lag", "correction"):
            if getattr(central, key) != fields[key].default:
                text = "exact actors are never behind. Set train.central.mode=async, or drop this key."
                yield RuleProblem((f"train.central.{key}", "train.central.mode"), text)
        return
    if config.algo.name != "ppo":
        text = f"async learns from steps of older policies, and {config.algo.name} cannot. Use exact, or algo.name=ppo."
        yield RuleProblem(("train.central.mode", "algo.name"), text)
    refused = (
        ("stages", config.stages),
        ("env.shaping", config.env.shaping),
        ("agent.track", config.agent.track),
        ("algo.extensions", config.algo.extensions),
    )
    for key, value in refused:
        if value:
            text = f"async cannot train with {key}. Use train.central.mode=exact, or drop {key}."
            yield RuleProblem(("train.central.mode", key), text)


RULES = (_sizes, _algorithm, _agent, _stop, _names, _env, _stages, _tasks, _central)
