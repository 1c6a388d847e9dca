"""A config file made by a verb: it extends what it was made from, with the settings that differ on top."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from gymnast import config as configs
from gymnast.config.layers import split_target
from gymnast.core.errors import UserError
from gymnast.core.files import write_atomic
from gymnast.verbs.train import resolve_config


def write_variant(path: Path, target: str, wanted: configs.RunConfig, head: str) -> None:
    """A file that means `wanted`; it holds the complete config where no extension of the target does. `head`: comment
    lines."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for body in (extending(path, target, wanted), configs.dump(wanted)):
            write_atomic(path, (head + body).encode())
            if means(path, wanted):
                return
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}. Name another file.") from error
    raise AssertionError(f"{path} does not load back")


def means(path: Path, wanted: configs.RunConfig) -> bool:
    try:
        return resolve_config(str(path), []).config == wanted
    except UserError:
        return False


def extending(path: Path, target: str, wanted: configs.RunConfig) -> str:
    """`extends`, and the keys that differ from it. Empty where the target is a run."""
    try:
        base = resolve_config(target, [])
    except UserError:
        return ""
    name, variant = split_target(base.target)
    if name.endswith((".yaml", ".yml")):
        name = os.path.relpath(name, path.parent)
    data: dict[str, Any] = {"extends": f"{name}:{variant}" if variant else name}
    for key, _, value in configs.diff(base.config, wanted):
        *sections, last = key.split(".")
        into = data
        for section in sections:
            into = into.setdefault(section, {})
        into[last] = value
    text = StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None  # what has no mapping in it stands in one line
    yaml.sort_base_mapping_type_on_output = False
    yaml.dump(data, text)
    return text.getvalue()
