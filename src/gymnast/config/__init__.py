"""Run configuration: typed and strict; loaded in layers, validated at once, explained key by key."""

from gymnast.config.facts import EnvFacts as EnvFacts
from gymnast.config.format import format_file as format_file
from gymnast.config.load import Preset as Preset
from gymnast.config.load import Resolved as Resolved
from gymnast.config.load import check_file as check_file
from gymnast.config.load import list_presets as list_presets
from gymnast.config.load import load as load
from gymnast.config.load import load_facts as load_facts
from gymnast.config.load import lowest_return as lowest_return
from gymnast.config.load import override as override
from gymnast.config.load import scored_facts as scored_facts
from gymnast.config.load import validate as validate
from gymnast.config.load import with_space_defaults as with_space_defaults
from gymnast.config.problems import ConfigError as ConfigError
from gymnast.config.render import Difference as Difference
from gymnast.config.render import Explained as Explained
from gymnast.config.render import diff as diff
from gymnast.config.render import dump as dump
from gymnast.config.render import explain as explain
from gymnast.config.render import show as show
from gymnast.config.schema import AgentConfig as AgentConfig
from gymnast.config.schema import EnvConfig as EnvConfig
from gymnast.config.schema import RunConfig as RunConfig
