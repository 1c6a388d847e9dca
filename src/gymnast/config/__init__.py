"""Run configuration: typed and strict; loaded in layers, validated at once, explained key by key."""

from gymnast.config.algos import AlgoSettings
from gymnast.config.facts import EnvFacts
from gymnast.config.files import preset_ids
from gymnast.config.format import format_file, format_text
from gymnast.config.load import (
    Preset,
    Resolved,
    check_file,
    list_presets,
    load,
    load_facts,
    override,
    validate,
    with_space_defaults,
)
from gymnast.config.problems import ConfigError
from gymnast.config.render import Difference, Explained, diff, dump, explain, leaves, show
from gymnast.config.schema import (
    AgentConfig,
    EnvConfig,
    EvalConfig,
    LogConfig,
    PlateauConfig,
    RewardConfig,
    RunConfig,
    StopConfig,
    TrainConfig,
    WrapperSpec,
)
from gymnast.core.schedule import Schedule

__all__ = [
    "AgentConfig",
    "AlgoSettings",
    "ConfigError",
    "Difference",
    "EnvConfig",
    "EnvFacts",
    "EvalConfig",
    "Explained",
    "LogConfig",
    "PlateauConfig",
    "Preset",
    "Resolved",
    "RewardConfig",
    "RunConfig",
    "Schedule",
    "StopConfig",
    "TrainConfig",
    "WrapperSpec",
    "check_file",
    "diff",
    "dump",
    "explain",
    "format_file",
    "format_text",
    "leaves",
    "list_presets",
    "load",
    "load_facts",
    "override",
    "preset_ids",
    "show",
    "validate",
    "with_space_defaults",
]
