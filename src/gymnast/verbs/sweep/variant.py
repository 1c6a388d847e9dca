"""The confirmed winner as a file that `gymnast train` takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.config.layers import split_target
from gymnast.core.errors import UserError
from gymnast.core.files import write_atomic
from gymnast.core.text import number, setting
from gymnast.verbs.sweep.compare import Comparison
from gymnast.verbs.sweep.plan import Candidate, Plan
from gymnast.verbs.sweep.space import with_values


def write_variant(path: Path, plan: Plan, winner: Candidate, confirmed: Comparison) -> Path:
    """What differs from the target, on top of it; all of the config where that does not say the same."""
    wanted = configs.validate(with_values(plan.asked, winner.values))
    found = confirmed.difference
    low, high = number(found.low), number(found.high)
    head = (
        f"# Made by `gymnast sweep`. Its score on {confirmed.pairs} fresh seeds of {plan.steps:,} steps (the area\n"
        f"# under the curve) is {number(found.value)} above that of {plan.label}; 95 % interval {low} to {high}.\n"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for body in (extending(path, plan, wanted), configs.dump(wanted)):
            write_atomic(path, (head + body).encode())
            if same(path, wanted):
                return path
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}. Name another file with --out.") from error
    raise AssertionError(f"{path} does not load back")


def same(path: Path, wanted: configs.RunConfig) -> bool:
    try:
        return configs.load(str(path)).config == wanted
    except configs.ConfigError:
        return False


def extending(path: Path, plan: Plan, wanted: configs.RunConfig) -> str:
    """`extends` and the keys that differ from it."""
    name, variant = split_target(plan.target)
    if name.endswith((".yaml", ".yml")):
        name = os.path.relpath(name, path.parent)
    try:
        base = configs.load(plan.target).config
    except configs.ConfigError:
        return ""
    sections: dict[str, dict[str, Any]] = {}
    for key, _, value in configs.diff(base, wanted):
        section, _, rest = key.partition(".")
        if "." in rest:
            return ""  # of a mapping in a section: written as a complete config
        sections.setdefault(section, {})[rest] = value
    lines = [f"extends: {name}{'' if variant is None else f':{variant}'}"]
    for section, values in sections.items():
        lines += [f"{section}:", *(f"  {key}: {setting(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"
