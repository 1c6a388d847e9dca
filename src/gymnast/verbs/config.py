"""`gymnast config`: the config that `train` would use, where each of its values came from, and files of configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.verbs.train import resolve_config


@dataclass(frozen=True)
class ShownConfig:
    target: str
    config: dict[str, Any]
    text: str  # the same as YAML

    def to_json(self) -> dict[str, Any]:
        return {"target": self.target, "config": self.config}


@dataclass(frozen=True)
class ExplainedConfig:
    target: str
    settings: list[configs.Explained]

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"key": row.key, "value": row.value, "source": row.source, "meaning": row.help} for row in self.settings
        ]
        return {"target": self.target, "settings": rows}


@dataclass(frozen=True)
class CheckedConfig:
    file: str
    problems: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class FormattedConfigs:
    files: list[str]
    formatted: list[str]  # those that were not in order

    def to_json(self) -> dict[str, Any]:
        return {"formatted": self.formatted}


def show_config(target: str, overrides: Sequence[str]) -> ShownConfig:
    resolved = resolve_config(target, overrides)
    return ShownConfig(resolved.target, resolved.config.model_dump(mode="json"), configs.show(resolved))


def explain_config(target: str, key: str | None, overrides: Sequence[str]) -> ExplainedConfig:
    resolved = resolve_config(target, overrides)
    return ExplainedConfig(resolved.target, configs.explain(resolved, key))


def check_config(path: Path) -> CheckedConfig:
    """Problems are raised, all at once."""
    if problems := configs.check_file(path):
        raise UserError("\n".join(problems))
    return CheckedConfig(str(path), [])


def format_configs(paths: Sequence[Path]) -> FormattedConfigs:
    return FormattedConfigs([str(path) for path in paths], [str(path) for path in paths if configs.format_file(path)])
