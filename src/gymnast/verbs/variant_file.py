"""A config file made by a verb: it extends what it was made from, with settings on top."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from gymnast import config as configs
from gymnast.core.files import write_atomic

if TYPE_CHECKING:
    from gymnast.config import Resolved


def write_variant(path: Path, resolved: Resolved, settings: dict[str, Any], head: str) -> None:
    """`settings`: by section, all that differ from the target's own; they are `resolved`'s. `head`: comment lines."""
    own = {section: dict(values) for section, values in settings.items()}
    name, variant = resolved.target.rpartition(":")[::2] if resolved.variant else (resolved.target, None)
    if resolved.generic:  # an env without a preset: what was filled in from its spaces is written out
        base = f"defaults/any:{variant}"
        config = resolved.config
        own.setdefault("env", {}).setdefault("id", config.env.id)
        own.setdefault("agent", {}).setdefault("normalize_obs", config.agent.normalize_obs)
        own.setdefault("algo", {}).setdefault("ent_coef", config.algo.ent_coef.to_form())
    elif name.endswith((".yaml", ".yml")):
        base = os.path.relpath(name, path.parent) + (f":{variant}" if variant else "")
    else:
        base = resolved.target
    text, yaml = StringIO(), YAML()
    yaml.default_flow_style = False
    yaml.dump({"extends": base, **{key: own[key] for key in configs.RunConfig.model_fields if key in own}}, text)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, (head + text.getvalue()).encode())
