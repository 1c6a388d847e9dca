"""`gymnast config`: the config that `train` would use, where each of its values came from, and files of configs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.config.layers import split_target
from gymnast.core.errors import UserError
from gymnast.core.trust import allow
from gymnast.verbs.result import Facts
from gymnast.verbs.train import require_env, resolve_config


@dataclass(frozen=True)
class ShownConfig:
    resolved: configs.Resolved

    def to_json(self) -> dict[str, Any]:
        return {"target": self.resolved.target, "config": self.resolved.config.model_dump(mode="json")}


@dataclass(frozen=True)
class FormattedConfigs:
    files: list[str]
    formatted: list[str]  # those that were not in order

    def to_json(self) -> dict[str, Any]:
        return {"formatted": self.formatted}


def show_config(target: str, overrides: Sequence[str], trust: bool = False) -> ShownConfig:
    _allow(target, trust)
    return ShownConfig(resolve_config(target, overrides))


def explain_config(target: str, key: str | None, overrides: Sequence[str], trust: bool = False) -> Facts:
    _allow(target, trust)
    resolved = resolve_config(target, overrides)
    names = ("key", "value", "source", "meaning")
    rows = [dict(zip(names, row, strict=True)) for row in configs.explain(resolved, key)]
    return Facts({"target": resolved.target, "settings": rows})


def _allow(target: str, trust: bool) -> None:
    """With --trust a file in the folder of a run that was made elsewhere may name code."""
    if trust:
        allow(split_target(target)[0])


def check_config(path: Path, trust: bool = False) -> Facts:
    """Problems are raised, all at once."""
    _allow(str(path), trust)
    if problems := configs.check_file(path, require_env):
        raise UserError("\n".join(problems))
    return Facts({"file": str(path), "problems": []})


def format_configs(paths: Sequence[Path], check: bool = False) -> FormattedConfigs:
    """With `check` nothing is written, and files that are not in order are a mistake."""
    changed = [str(path) for path in paths if configs.format_file(path, write=not check)]
    if check and changed:
        raise UserError(f"not in order: {', '.join(changed)}. Run: gymnast config fmt {shlex.join(changed)}")
    return FormattedConfigs([str(path) for path in paths], changed)
