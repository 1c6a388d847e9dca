"""`gymnast envs list|show`: envs to train on. Gymnasium is imported only for what no preset says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gymnast import config as configs
from gymnast.config import EnvConfig
from gymnast.config.files import is_preset, read_preset
from gymnast.config.layers import split_target, variant_names
from gymnast.config.load import find
from gymnast.core.errors import UserError
from gymnast.envs.shaping.components import named_parts
from gymnast.envs.suites import suite_of
from gymnast.verbs.extras import EXTRAS
from gymnast.verbs.result import Facts


def needs(facts: configs.EnvFacts, env_id: str) -> str | None:
    """The command that installs what an env needs; None: it is there."""
    command = None if facts.extra is None else EXTRAS[facts.extra].command
    return command or (suite_of(env_id).lacks(env_id) if facts.own_rom else None)


def list_envs(everything: bool) -> Facts:
    """Envs with presets; `everything`: also others, which are registered with Gymnasium."""
    envs = [_brief(preset) for preset in configs.list_presets()]
    if not everything:
        return Facts({"envs": envs})
    from gymnast.envs.suites import list_env_ids

    known = {env["id"] for env in envs}
    return Facts({"envs": envs, "others": [name for name in list_env_ids() if name not in known]})


def _brief(preset: configs.Preset) -> dict[str, Any]:
    facts = facts_of(preset.id)
    return {
        **preset._asdict(),
        "threshold": facts.solved.threshold if facts.solved else None,
        "evidence": facts.solved.evidence if facts.solved else None,
        "optimum": facts.optimum,
        "extra": facts.extra,
        "installed": (command := needs(facts, preset.id)) is None,
        "install": command,
    }


def facts_of(env_id: str) -> configs.EnvFacts:
    facts = configs.load_facts(env_id)
    assert facts is not None, "every preset has facts"
    return facts


def show_env(target: str) -> Facts:
    env_id, variant = split_target(target)
    if is_preset(env_id) and not env_id.startswith("defaults/"):
        return _preset(env_id, variant)
    from gymnast.envs.suites import find_spec

    find(target, find_spec)  # a typo ends here, with the nearest names
    return _registered(env_id)


def _preset(env_id: str, variant: str | None) -> Facts:
    facts = facts_of(env_id)
    variants = variant_names(read_preset(env_id))
    shown = variant or variants[0]
    config = configs.load(f"{env_id}:{shown}").config  # an unknown variant ends here
    kwargs = config.env.kwargs
    parts = named_parts(env_id, kwargs)
    best = facts.best_return(facts.described(env_id))
    known = facts.model_dump(mode="json")
    if variant:  # the facts describe the env, and what the first variant sees of it
        if labels := suite_of(env_id).observation_labels(kwargs):
            known["observations"] = [{"name": label} for label in labels]
        known["actions"] = suite_of(env_id).action_labels(kwargs) or known["actions"]
        if config.stop.threshold is not None and known["solved"]:
            known["solved"]["threshold"] = config.stop.threshold
    data = {
        "id": env_id,
        **known,
        "shown": shown,
        "installed": (command := needs(facts, env_id)) is None,
        "install": command,
        "limit_unit": suite_of(env_id).limit_unit,
        "shaping": [{"name": n, "kind": kind, "meaning": meaning} for n, (kind, meaning) in parts.items()],
        "variants": [_variant(env_id, name) for name in variants],
        "task": _task(env_id, [shown, *(name for name in variants if name != shown)]),
    }
    return Facts(data if best is None else data | {"optimum": best.value, "optimum_source": best.source})


def _task(env_id: str, variants: Sequence[str]) -> list[dict[str, Any]]:
    """Everything that changes the task, as the first variant has it, and `others` where another one differs."""
    suite = suite_of(env_id)
    if suite.Task is None:
        return []
    first, *others = ((name, suite.task(_kwargs(env_id, name)).model_dump(mode="json")) for name in variants)
    return [
        {
            "name": key,
            "value": first[1][key],
            "others": {name: task[key] for name, task in others if task[key] != first[1][key]},
            "meaning": field.description,
        }
        for key, field in suite.Task.model_fields.items()
    ]


def _kwargs(env_id: str, variant: str) -> dict[str, Any]:
    return configs.load(f"{env_id}:{variant}").config.env.kwargs


def _variant(env_id: str, name: str) -> dict[str, Any]:
    config = configs.load(f"{env_id}:{name}").config
    return {
        "name": name,
        "about": read_preset(env_id).data["variants"][name].get("about"),
        "algo": config.algo.name,
        "total_timesteps": config.train.total_timesteps,
        "n_envs": config.env.n_envs,
    }


def _registered(env_id: str) -> Facts:
    """What Gymnasium knows of an env that has no preset."""
    from gymnast.envs.suites import find_spec, make
    from gymnast.envs.tabular.oracle import find_table

    spec = find_spec(env_id)
    data: dict[str, Any] = {
        "id": env_id,
        "entry_point": spec.entry_point if isinstance(spec.entry_point, str) else named(spec.entry_point),
        "kwargs": {key: named(value) for key, value in spec.kwargs.items()},
        "max_episode_steps": spec.max_episode_steps or suite_of(env_id).default_limit,
        "limit_unit": suite_of(env_id).limit_unit,
        "threshold": spec.reward_threshold,
        "variants": (variants := variant_names(find(env_id)[0].file)),
        "task": _task(env_id, variants),
        **dict.fromkeys(("observation_space", "action_space", "optimum", "optimum_source", "problem")),
    }
    try:
        env = make(env_id)
    except UserError as error:
        return Facts(data | {"problem": str(error)})
    data |= {"observation_space": named(env.observation_space), "action_space": named(env.action_space)}
    env.close()
    if table := find_table(EnvConfig(id=env_id)):
        data |= {"optimum": table.optimum.value, "optimum_source": table.optimum.source}
    return Facts(data)


def named(value: Any) -> str:
    """As text, with functions by their names: where they lie in memory says nothing."""
    return re.sub(r"<function ([^ ]+) at 0x[0-9a-f]+>", r"\1", str(value))
