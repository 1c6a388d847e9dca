"""`env.forbid`: combinations of actions that the agent may never choose, by their labels.

Components that no combination names together stay independent choices. Those that one links become a single choice
among the combinations of them that are allowed. What is forbidden is therefore no action of the agent at all: it has
no output, no probability and no gradient, and log-probabilities and entropy are those of a plain categorical choice.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure, UserError, did_you_mean
from gymnast.envs.labels import action_labels, own_labels
from gymnast.envs.wrappers.base import NamedWrapper

if TYPE_CHECKING:
    from gymnast.config import EnvConfig

MOST = 4096  # combinations of linked components: the agent has an output for each that is allowed


@dataclass(frozen=True)
class Choice:
    """One choice of a component, as the env has it."""

    label: str
    words: frozenset[str]  # what it is called in a combination; a button that is not pressed is called nothing


class Forbid(NamedWrapper):
    """The env with the allowed actions alone: Discrete, or MultiDiscrete where several choices are independent."""

    name = "forbid"
    is_transparent = True

    def __init__(self, env: gym.Env[Any, Any], cfg: EnvConfig) -> None:
        super().__init__(env)
        source = env.action_space
        if not isinstance(source, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            raise _refusal(f"needs Discrete, MultiDiscrete or MultiBinary actions; this env has {source}.")
        self._masked = cfg.action_masks
        self._is_bits = isinstance(source, spaces.MultiBinary)
        components = _components(source, cfg, own_labels(env))
        forbidden = [_checked(combination, components) for combination in cfg.forbid]
        groups = _linked(components, forbidden)
        # for each group: the allowed combinations of its components' choices, [combinations, components]
        self._tables = [_allowed([components[i] for i in group], forbidden, cfg.forbid) for group in groups]
        self._order = np.argsort([i for group in groups for i in group])
        self._sizes = [len(choices) for choices in components]
        first = np.cumsum([0, *self._sizes])  # where a component begins among all choices
        self._places = [first[group] + table for group, table in zip(groups, self._tables, strict=True)]
        self.labels = [  # of each choice of the agent's, by component
            [
                _title([components[i][choice] for i, choice in zip(group, row, strict=True)], components, group)
                for row in table
            ]
            for group, table in zip(groups, self._tables, strict=True)
        ]
        # what the env's own step takes, of a Discrete
        self._left = [int(source.start) + i for i in self.actions] if isinstance(source, spaces.Discrete) else []
        sizes = [len(table) for table in self._tables]
        self.action_space = spaces.Discrete(sizes[0]) if len(sizes) == 1 else spaces.MultiDiscrete(sizes)

    @property
    def actions(self) -> list[int]:
        """Which actions of a Discrete env are left."""
        return self._tables[0][:, 0].tolist()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._with_mask(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        taken = self._left[action] if self._left else self._combined(action)
        observation, reward, terminated, truncated, info = self.env.step(taken)
        return observation, reward, terminated, truncated, self._with_mask(info)

    def _combined(self, action: Any) -> NDArray[Any]:
        rows = [table[choice] for table, choice in zip(self._tables, np.atleast_1d(action), strict=True)]
        source: Any = self.env.action_space
        choices = np.concatenate(rows)[self._order].reshape(source.shape)
        taken: NDArray[Any] = (choices if self._is_bits else choices + source.start).astype(source.dtype)
        return taken

    def _with_mask(self, info: dict[str, Any]) -> dict[str, Any]:
        """A combination is allowed where the env allows each of its choices; not to press a button always is."""
        if not self._masked or "action_mask" not in info:
            return info
        mask: NDArray[np.bool_] = np.ravel(np.asarray(info["action_mask"], np.bool_))
        needed = len(self._sizes) if self._is_bits else sum(self._sizes)
        if mask.size != needed:
            raise EnvFailure(f"{self.env}: info['action_mask'] has {mask.size} entries, needs {needed}.")
        if self._is_bits:
            mask = np.stack((np.ones_like(mask), mask), 1).ravel()
        return {**info, "action_mask": np.concatenate([mask[places].all(axis=1) for places in self._places])}


def find_forbid(env: gym.Env[Any, Any]) -> Forbid | None:
    """The layer of an env that forbids some of its actions, if there is one."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, Forbid):
            return layer
        layer = layer.env
    return None


def agent_labels(env: gym.Env[Any, Any]) -> list[str] | None:
    """What the agent's choices are called: what `env.forbid` leaves, or as the env calls its own; None: no names."""
    layer = find_forbid(env)
    return own_labels(env) if layer is None else [label for labels in layer.labels for label in labels]


def _refusal(problem: str) -> UserError:
    return UserError(f"env.forbid: {problem}")


def _components(source: Any, cfg: EnvConfig, own: list[str] | None) -> list[list[Choice]]:
    """The choices of each component. A Discrete's label "left+fire" means both of them."""
    if isinstance(source, spaces.MultiBinary):
        count = math.prod(source.shape)
        buttons = action_labels(cfg, own, count, None)
        return [[Choice(f"no {name}", frozenset()), Choice(name, _words(name))] for name in buttons]
    sizes = [int(source.n)] if isinstance(source, spaces.Discrete) else source.nvec.ravel().tolist()
    names = iter(action_labels(cfg, own, sum(sizes), sizes))
    return [[Choice(name, _words(name)) for name in itertools.islice(names, size)] for size in sizes]


def _words(label: str) -> frozenset[str]:
    """A label and, of "left+fire", its parts; "torque +1" has none."""
    return frozenset(word.casefold() for word in (label, *re.split(r"(?<=\S)\+(?=\S)", label)))


def _checked(combination: Sequence[str], components: list[list[Choice]]) -> frozenset[str]:
    choices = [choice for choices in components for choice in choices if choice.words]
    known = {word for choice in choices for word in choice.words}
    for label in combination:
        if label.casefold() not in known:
            names = [choice.label for choice in choices]
            few = f"{', '.join(names[:32])}{' ...' if len(names) > 32 else ''}"
            raise _refusal(f"there is no action {label!r}.{did_you_mean(label, names)} Known: {few}.")
    return frozenset(label.casefold() for label in combination)


def _linked(components: list[list[Choice]], forbidden: Iterable[frozenset[str]]) -> list[list[int]]:
    """Components in groups that depend on each other: some combination names choices of all of them."""
    groups = [{i} for i in range(len(components))]
    for words in forbidden:
        named = {i for i, choices in enumerate(components) if any(choice.words & words for choice in choices)}
        linked = set().union(*(group for group in groups if group & named))
        groups = [group for group in groups if not group & named] + [linked]
    return sorted(sorted(group) for group in groups)


def _allowed(
    components: list[list[Choice]], forbidden: list[frozenset[str]], written: Sequence[Sequence[str]]
) -> NDArray[np.int64]:
    """What is left of all combinations of some components' choices."""
    count = math.prod(map(len, components))
    if count > MOST:
        raise _refusal(
            f"links {len(components)} components of the action into one choice of {count:,} combinations, more than "
            f"{MOST:,}. Name fewer of them, or list the actions in env.wrappers (action_remap)."
        )
    rows = list(itertools.product(*(range(len(choices)) for choices in components)))
    words = [frozenset().union(*(choices[c].words for choices, c in zip(components, row, strict=True))) for row in rows]
    own = frozenset().union(*(choice.words for choices in components for choice in choices))
    mine = [(combination, text) for combination, text in zip(forbidden, written, strict=True) if combination <= own]
    for combination, text in mine:
        if not any(combination <= row for row in words):
            alone = ", ".join(f"[{label}]" for label in text)
            raise _refusal(f"[{', '.join(text)}] is never one action here. To forbid each of them: [{alone}].")
    left = [row for row, said in zip(rows, words, strict=True) if not any(one <= said for one, _ in mine)]
    if not left:
        names = "/".join(choice.label for choices in components for choice in choices)
        raise _refusal(f"leaves nothing of {names}. Forbid less: the agent must always do something.")
    return np.array(left, np.int64)


def _title(chosen: list[Choice], components: list[list[Choice]], group: list[int]) -> str:
    """The labels of what is chosen; of buttons that are not pressed a word for all of them."""
    done = [choice.label for choice in chosen if choice.words]
    return "+".join(done) or f"no {'/'.join(components[i][1].label for i in group)}"
