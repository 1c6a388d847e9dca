"""`gymnast envs check` of many envs: every variant of the presets, each env that they share once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gymnast import config as configs
from gymnast.config import Resolved
from gymnast.config.layers import split_target, variant_names
from gymnast.config.load import find
from gymnast.envs.make import choose_engine
from gymnast.verbs.envs.facts import wrong_facts
from gymnast.verbs.envs.health import Checked, check_health
from gymnast.verbs.envs.show import needs
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.train import resolve_config

UNSEEN = {"n_envs", "reward", "step_timeout"}  # of `env`: they change nothing about what an env shows


def check_envs(
    targets: Sequence[str], overrides: Sequence[str], steps: int, every_variant: bool, progress: Progress = SILENT
) -> Checked:
    """The targets, or every preset where there are none; `every_variant` of each, or the one that `train` takes."""
    names = list(targets) or [preset.id for preset in configs.list_presets()]
    names = [one for name in names for one in (_variants(name) if every_variant else [name])]
    missing, groups = _sorted(names, overrides)
    progress.plan(len(groups))
    found = []
    for number, members in enumerate(groups.values(), start=1):
        name = members[0].config.env.id
        progress.step(name)
        found.append(_check(members, steps))
        problems = len(found[-1]["problems"])
        said = f"{problems} problem{'s' * (problems != 1)}" if problems else "ok"
        progress.say(f"{number} of {len(groups)}  {name}: {said}", failed=bool(problems))
        progress.done()
    return Checked(
        {
            "envs": found,
            "missing": [{"command": command, "targets": lacking} for command, lacking in missing.items()],
            "problems": [f"{one['env']}: {problem}" for one in found for problem in one["problems"]],
        }
    )


def _variants(target: str) -> list[str]:
    name, variant = split_target(target)
    place, _ = find(target)
    return [target] if variant else [f"{name}:{one}" for one in variant_names(place.file)] or [target]


def _sorted(names: Sequence[str], overrides: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[Resolved]]]:
    """Envs whose package is not installed, by the command that adds it; the others by all that their env depends on."""
    missing: dict[str, list[str]] = {}
    groups: dict[str, list[Resolved]] = {}
    for name in names:
        facts = configs.load_facts(env_id := split_target(name)[0])
        if facts is not None and (command := needs(facts, env_id)):
            missing.setdefault(command, []).append(name)
            continue
        resolved = resolve_config(name, overrides)
        groups.setdefault(_key(resolved), []).append(resolved)
    return missing, groups


def _key(resolved: Resolved) -> str:
    found: list[str] = []
    for config in resolved.config.parts:
        found += (
            choose_engine(config.env, config.env.n_envs)[0],
            choose_engine(config.eval_env, config.eval_n_envs, role="eval")[0],
        )
        found += [cfg.model_dump_json(exclude=UNSEEN) for cfg in (config.env, config.eval_env)]
    return "|".join(found)


def _check(members: Sequence[Resolved], steps: int) -> dict[str, Any]:
    began, first = time.perf_counter(), members[0]
    health = check_health(first.config, steps)
    if first.facts is not None and not health.problems:
        health.problems += wrong_facts(first.config.env.id, first.facts)
    variants = [one.variant for one in members if one.variant is not None]
    seconds = time.perf_counter() - began
    return {"env": first.config.env.id, "variants": variants, **asdict(health), "seconds": seconds}
