"""Keyword arguments by stable-baselines3's names, put into the config's sections."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from gymnast import config as configs
from gymnast.api.policies import POLICIES, of_policy
from gymnast.api.sources import EnvSource
from gymnast.config.algos import settings_of
from gymnast.config.layers import split_target
from gymnast.config.schema import AgentConfig, RunConfig
from gymnast.core.devices import is_available
from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.registry import ALGOS
from gymnast.core.schedule import Schedule
from gymnast.envs.make import space_defaults
from gymnast.envs.suites import find_spec

READ_AT = 100  # places of a run at which a function that is a schedule is read, and its start
BUDGET_OPEN = 10**9  # env steps in a config before learn() says how many
OTHER_SECTIONS = {"n_envs": "env.n_envs", "seed": "train.seed", "device": "train.device"}
# stable-baselines3's keywords that have no counterpart: the value that means "off", and what to do instead
LACKING: dict[str, tuple[Any, str]] = {
    "rollout_buffer_class": (None, "There is only one kind of rollout buffer. Leave this argument out."),
    "rollout_buffer_kwargs": (None, "There is only one kind of rollout buffer. Leave this argument out."),
    "monitor_wrapper": (True, "Episodes are always recorded; leave it out."),
    "_init_setup_model": (True, "A model is always set up; leave it out."),
}
FIXED = {
    "env.id": "the env is the argument env.",
    "algo.name": "the class says which algorithm it is.",
    "train.total_timesteps": "learn(total_timesteps) says how long.",
}


def new_config(
    model: str, algo: str, source: EnvSource, policy: str | None, keywords: Mapping[str, Any]
) -> tuple[RunConfig, EnvSource, str | None]:
    """The config of a new model, its env without a variant's name, and that name.

    "ENV" alone starts from stable-baselines3's defaults, "ENV:VARIANT" from a preset. Keywords overrule the policy.
    """
    variant = None
    data: dict[str, Any] = {
        "env": {"id": source.name, "n_envs": 1},
        "agent": {"rescale_actions": False},  # as stable-baselines3: clipped, not rescaled
        "algo": {"name": algo},
    }
    if source.is_id and (variant := split_target(source.name)[1]) is not None:
        resolved = configs.load(source.name, require_env=find_spec)
        if resolved.generic:
            resolved = configs.with_space_defaults(resolved, space_defaults(resolved.config.env))
        data = resolved.config.model_dump(mode="json")
        if data["algo"]["name"] != algo:
            right = data["algo"]["name"].upper()
            raise UserError(f"{model}: {source.name} is a preset for {right}. Use {right}({source.name!r}).")
        source = EnvSource(data["env"]["id"])
    data["env"] |= source.settings
    of_policy, asked = POLICIES[policy] if policy else {}, dotted(model, algo, keywords)
    if "share_features_extractor" in (keywords.get("policy_kwargs") or {}) and not of_policy:
        del asked["agent.shared"]  # only pictures have an extractor with weights
    given = of_policy | asked
    leave_judgement_to_the_user(data, given)
    return with_settings(model, data, given, source), source, variant


def moved_to(model: str, config: RunConfig, source: EnvSource, given: Mapping[str, Any] | None = None) -> RunConfig:
    """A config for envs from another source, with settings on top."""
    data = config.model_dump(mode="json")
    if source.name != config.env.id:
        data["env"]["kwargs"], data["env"]["shaping"] = {}, {}
    data["env"] |= {"id": source.name, **source.settings}
    return with_settings(model, data, given or {}, source)


def with_settings(model: str, data: Mapping[str, Any], given: Mapping[str, Any], source: EnvSource) -> RunConfig:
    """A config's data with dotted settings on top, validated; errors name the keyword."""
    whole = copy.deepcopy(dict(data))
    whole["train"] = {**whole.get("train", {}), "total_timesteps": BUDGET_OPEN}
    for key, value in given.items():
        into: Any = whole
        *parents, leaf = key.split(".")
        for parent in parents:
            if not isinstance(into.setdefault(parent, {}), dict):
                into[parent] = {}
            into = into[parent]
        into[leaf] = value
    config = configs.validate(whole, dict.fromkeys(given, f"{model}(...)"))
    if config.stages:
        raise UserError(f"{model}: stages: a model trains in one env. Train a curriculum with `gymnast train`.")
    if config.tasks:
        raise UserError(f"{model}: tasks: a model trains in one env. Train several tasks with `gymnast train`.")
    if source.given is not None:
        refuse_sharing(source, config)
    return config


def refuse_sharing(source: EnvSource, config: RunConfig) -> None:
    """There is one env object, and training is in the middle of an episode in it."""
    make = f"pass a function that makes one instead, like lambda: {source.name}(...)."
    if source.vector is not None:
        make = "make the envs with gymnast.make_vec_env(id_or_factory, n_envs=...)."
        if config.env.n_envs != source.vector.num_envs:
            raise UserError(f"n_envs={config.env.n_envs}: this vector has {source.vector.num_envs} envs; leave it out.")
    elif config.env.n_envs > 1:
        raise UserError(f"n_envs={config.env.n_envs} needs as many envs, and an env object is only one: {make}")
    if config.eval_every or config.stop.on_solved:
        raise UserError(
            f"evaluation while training needs envs of its own, and {source.name} is given, not made here: {make}"
        )
    if config.env.engine not in ("auto", "sync"):
        raise UserError(
            f"env.engine={config.env.engine} makes its own envs, and {source.name} is given, not made here: {make}"
        )


def leave_judgement_to_the_user(data: dict[str, Any], given: Mapping[str, Any]) -> None:
    """learn() trains for the given steps and does nothing else, unless `set` speaks of evaluation or stopping."""
    stop = [key for key in given if key.startswith("stop.") and key != "stop.seconds"]
    if not any(key.startswith("eval.") for key in given) and not stop:
        data["eval"] = {**data.get("eval", {}), "every": 0}
        data["stop"] = {**data.get("stop", {}), "plateau": None}
    if not stop:
        data["stop"] = {**data.get("stop", {}), "on_solved": False}


def dotted(model: str, algo: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords as keys of the config: {"batch_size": 64} is {"algo.batch_size": 64}."""
    rest = dict(keywords)
    found = of_policy(model, rest.pop("policy_kwargs", None) or {})
    extra = rest.pop("set", None) or {}
    found |= of_other_names(algo, rest)
    places = keyword_places(algo)
    for name, value in rest.items():
        if name in LACKING:
            off, advice = LACKING[name]
            if value != off:
                raise UserError(f"{model}({name}={value!r}): not supported. {advice}")
        elif name not in places:
            raise UserError(f"{model} has no keyword {name!r}.{nearest(name, algo)}")
        elif value is not None or name not in OTHER_SECTIONS:
            found[places[name]] = plain(f"{model}({name}=...)", value)
    if "train.device" in found:
        found["train.device"] = device_here(found["train.device"])
    for key, value in extra.items():
        if key in FIXED:
            raise UserError(f"{model}(set={{{key!r}: ...}}): {FIXED[key]}")
        found[key] = plain(f"{model}(set={{{key!r}: ...}})", value)
    return found


def device_here(name: Any) -> Any:
    """The device that a script or a file names; the CPU, with a warning, where this machine has no such device. Scripts
    written for another machine run on this one."""
    kind = name.partition(":")[0] if isinstance(name, str) else name  # cuda:0
    if kind in ("cuda", "mps") and not is_available(kind):
        warnings.warn(f"device={name!r} is not available on this machine: the CPU is used.", stacklevel=2)
        return "cpu"
    return kind


def keyword_places(algo: str) -> dict[str, str]:
    """Every keyword: those of the algorithm and of the agent, and a few of other sections."""
    ours = {name: f"algo.{name}" for name in settings_of(algo).model_fields if name != "name"}
    return ours | {name: f"agent.{name}" for name in AgentConfig.model_fields} | OTHER_SECTIONS


def nearest(name: str, algo: str) -> str:
    owners = [other.upper() for other in ALGOS if name in settings_of(other).model_fields]
    if owners:
        return f" It belongs to {' and '.join(owners)}."
    known = [*keyword_places(algo), "policy_kwargs", "verbose", "runs_dir", "set"]
    hint = did_you_mean(name, known)
    return f"{hint} Any other setting goes through set={{'section.key': value}}."


def of_other_names(algo: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """What stable-baselines3 spells in its own way: gSDE, where -1 means a whole rollout, and A2C's optimizer. Takes
    what it understands out of the keywords."""
    found: dict[str, Any] = {}
    if keywords.pop("use_sde", False):
        found["agent.std"] = "sde"
    if keywords.get("sde_sample_freq") == -1:
        keywords["sde_sample_freq"] = None
    if algo == "a2c" and "use_rms_prop" in keywords:
        found["algo.optimizer"] = "rmsprop" if keywords.pop("use_rms_prop") else "adam"
    if algo == "a2c" and "rms_prop_eps" in keywords:
        found["algo.optimizer_eps"] = keywords.pop("rms_prop_eps")
    return found


def plain(where: str, value: Any) -> Any:
    """A value that can be written down: a config is saved with the model."""
    if isinstance(value, Schedule):
        return value.to_form()
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__module__ == "torch" and type(value).__name__ == "device":
        return value.type
    return read_function(where, value) if callable(value) else value


def read_function(where: str, function: Any) -> Any:
    """A function of the share of the run that is left, as stable-baselines3's schedules are, in a form that can be
    saved: exact where it is a constant or a line, else read at every hundredth of the run."""
    try:
        values = [float(function(1.0 - at / READ_AT)) for at in range(READ_AT + 1)]
    except Exception as error:  # whatever the user's function may raise
        raise UserError(f"{where}: must be a function of the share of the run that is left: {error}.") from error
    ends = Schedule(((0.0, values[0]), (1.0, values[-1])))
    if not np.allclose(values, [ends.value(at / READ_AT) for at in range(READ_AT + 1)], rtol=1e-6, atol=0.0):
        return {"points": [[at / READ_AT, value] for at, value in enumerate(values)]}
    return values[0] if values[0] == values[-1] else ends.to_form()
