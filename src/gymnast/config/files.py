"""Reading YAML (1.2: `1e-3` is a number, `off` a word) with line numbers, and finding the preset files."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gymnast.config.problems import ConfigError
from gymnast.core.errors import did_you_mean
from gymnast.core.files import read_bytes
from gymnast.core.text import cut

PRESETS = Path(__file__).resolve().parent.parent / "presets"
SHARED = "defaults"  # the folder of shared defaults among the presets
ANY_ENV = "defaults/any"  # for an env without a preset

LARGEST = 1 << 18  # bytes of a file: reading YAML takes its time
DEEPEST = 16  # levels of keys and lists
TOO_DEEP = f"is nested more than {DEEPEST} levels deep."

KeyPath = tuple[str, ...]
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class YamlFile:
    """A file's data and the line each key stands on."""

    label: str
    data: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def at(self, path: KeyPath) -> str:
        """file:line of a key, or of the nearest key above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.label}:{self.lines[path]}" if path else self.label


def parse_yaml(text: str, label: str) -> YamlFile:
    """Reads a mapping. A mistake is one line with file, line and column."""
    yaml = YAML(typ="safe", pure=True)
    if re.search(rf"([\[{{]\s*){{{2 * DEEPEST}}}", text):  # the parser takes seconds to find that out
        raise ConfigError([f"{label}: {TOO_DEEP}"])
    try:
        node = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{label}:{mark.line + 1}: column {mark.column + 1}" if mark else label
        reason = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise ConfigError([f"{where}: broken YAML: {reason}."]) from None
    except YAMLError as error:
        raise ConfigError([f"{label}: broken YAML: {' '.join(str(error).split())}"]) from None
    except RecursionError:
        raise ConfigError([f"{label}: {TOO_DEEP}"]) from None
    lines: dict[KeyPath, int] = {}
    data = {} if node is None else _construct(yaml, node, (), lines, label)
    if not isinstance(data, dict):
        raise ConfigError([f"{label}: holds {data!r:.60}. Expected `key: value` lines."])
    return YamlFile(label, data, lines)


def parse_value(text: str) -> Any:
    """A single YAML value, as on the command line; ConfigError where it is none."""
    return parse_yaml(f"value: {text}", "value").data["value"]


def _construct(yaml: YAML, node: Node, path: KeyPath, lines: dict[KeyPath, int], label: str) -> Any:
    line = node.start_mark.line + 1
    if node.anchor:
        raise ConfigError([f"{label}:{line}: anchor &{node.anchor}: anchors are not supported. Use `extends`."])
    if len(path) > DEEPEST:
        raise ConfigError([f"{label}:{line}: {TOO_DEEP}"])
    if isinstance(node, ScalarNode):
        if node.tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"):
            try:
                value = yaml.constructor.construct_object(node)
                if isinstance(value, int) and abs(value) >= 2**63:
                    raise ValueError("more than any setting can be")
                return value
            except (ValueError, KeyError):
                kind = node.tag.removeprefix(_TAG)
                raise ConfigError([f"{label}:{line}: {cut(repr(node.value))} is not a {kind}."]) from None
        if node.tag in (f"{_TAG}str", f"{_TAG}timestamp"):
            if not node.value.replace("\n", "").replace("\t", "").isprintable():
                raise ConfigError([f"{label}:{line}: {cut(repr(node.value))} has characters that cannot be printed."])
            return node.value
        raise ConfigError([f"{label}:{line}: tag {node.tag} is not supported. Write a plain value."])
    if isinstance(node, SequenceNode):
        return [_construct(yaml, item, (*path, str(i)), lines, label) for i, item in enumerate(node.value)]
    assert isinstance(node, MappingNode)
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key_line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            raise ConfigError([f"{label}:{key_line}: a key must be a plain word."])
        _construct(yaml, key_node, path, lines, label)
        key = key_node.value  # as it is written: a variant may be called 1 or true
        if key in result:
            raise ConfigError([f"{label}:{key_line}: {'.'.join((*path, key))} is given twice. Keep one of them."])
        key_path = (*path, key)
        lines[key_path] = key_line
        result[key] = _construct(yaml, value_node, key_path, lines, label)
    return result


def read_file(path: Path) -> YamlFile:
    """A user's file."""
    try:
        text = read_bytes(path, LARGEST, follow=True).decode()
    except FileNotFoundError:
        folder = path.parent
        files = sorted(p.name for p in folder.glob("*.y*ml")) if folder.is_dir() else []
        here = "" if folder.is_dir() else f" There is no folder {str(folder)!r}."
        raise ConfigError([f"{path}: no such file.{here}{did_you_mean(path.name, files)}"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}."]) from None
    except ValueError as error:
        raise ConfigError([f"{path}: cannot be read: {error}."]) from None
    return parse_yaml(text, str(path))


def preset_ids() -> list[str]:
    """Env ids that have a preset. An id with a slash lies in a folder: presets/gymnast/Bandit-v0.yaml."""
    names = (path.relative_to(PRESETS).with_suffix("").as_posix() for path in PRESETS.rglob("*.yaml"))
    return sorted(name for name in names if not name.startswith(f"{SHARED}/"))


def shared_names() -> list[str]:
    """Shared defaults, as `extends` names them: defaults/any."""
    return sorted(f"{SHARED}/{path.stem}" for path in (PRESETS / SHARED).glob("*.yaml"))


def is_preset(name: str) -> bool:
    return os.path.isfile(PRESETS / f"{name}.yaml")


@functools.lru_cache(maxsize=64)
def read_preset(name: str) -> YamlFile:
    """A preset file or shared defaults by name; read once, do not change the result."""
    return parse_yaml((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"), f"presets/{name}.yaml")
