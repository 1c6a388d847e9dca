"""Spaces that an env samples from: what it samples in an episode follows from the episode's seed.

Gymnasium's reset seeds `env.np_random` alone. An env that calls `self.observation_space.sample()` would give other
numbers in every run.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from gymnast.core.seeds import derive_seed


class Episode:
    """The seed of an env's episode, and how many there were; `env` only as long as somebody else keeps it."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = weakref.ref(env)
        self.seed = self.number = 0


class EpisodeGenerator(np.random.Generator):
    """Random numbers of one space. It is seeded when it is first used in an episode: to seed every space at every reset
    takes longer than the reset of a small env, and hardly any env samples."""

    episode: Episode
    space = 0  # its number among those of the env
    seeded = 0  # the number of the episode it was seeded for

    def __getattribute__(self, name: str) -> Any:
        get = super().__getattribute__
        if name not in ("episode", "space", "seeded") and self.seeded != (episode := self.episode).number:
            self.seeded = episode.number
            get("bit_generator").state = np.random.PCG64(derive_seed(episode.seed, "space", self.space)).state
        return get(name)


def seed_spaces(env: gym.Env[Any, Any]) -> None:
    """Has every reset with a seed begin the random numbers of all spaces of an env and of its wrappers."""
    episode, pairs = Episode(env.unwrapped), []
    for number, space in enumerate(spaces_of(env, own=True)):
        space._np_random = generator = EpisodeGenerator(np.random.PCG64())
        generator.episode, generator.space = episode, number
        pairs.append((space, generator))
    outermost: Any = env
    reset = outermost.reset

    def reset_with_spaces(*, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            episode.seed = seed
            episode.number += 1
            for space, generator in pairs:  # somebody may have put another one there, by space.seed()
                space._np_random = generator
        return reset(seed=seed, options=options)

    outermost.reset = reset_with_spaces


def spaces_of(env: gym.Env[Any, Any], own: bool = False) -> list[Any]:
    """All spaces that are attributes of an env or of its wrappers, and their parts; the innermost first.

    `own`: the env gets a copy of each that another env has too, those of its class or module: what one env samples
    would depend on when the others do.
    """
    layers: list[Any] = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    found: dict[int, Any] = {}
    copies: dict[int, Any] = {}  # so that what was one space stays one
    for layer in reversed(layers):
        named = {name: getattr(layer, name) for name in ("observation_space", "action_space")} | vars(layer)
        for name, space in named.items():
            if not isinstance(space, gym.Space):
                continue
            kept: Any = space
            if own and any(_is_of_another(part, env.unwrapped) for part in _parts(space)):
                kept = copy.deepcopy(space, copies)
                with suppress(AttributeError):  # a property: it cannot be replaced
                    setattr(layer, name, kept)
            found |= {id(part): part for part in _parts(kept)}
    return list(found.values())


def _is_of_another(space: Any, env: gym.Env[Any, Any]) -> bool:
    generator = vars(space).get("_np_random")
    return isinstance(generator, EpisodeGenerator) and generator.episode.env() is not env


def _parts(space: gym.Space[Any]) -> Iterator[gym.Space[Any]]:
    """A space and those it is made of."""
    yield space
    for value in vars(space).values():
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
        for part in inner:
            if isinstance(part, gym.Space):
                yield from _parts(part)
