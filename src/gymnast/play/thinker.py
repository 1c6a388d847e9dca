"""An agent that plays one env step by step, or whoever plays in its place while it looks on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent.heads import CategoricalHead
from gymnast.agent.tasks import TaskGaussianHead
from gymnast.core.seeds import derive_seed
from gymnast.play.player import Moment
from gymnast.play.random_actions import same_actions

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.envs.types import StepBatch
    from gymnast.play.game import Game

Policy = Literal["greedy", "sampled", "random", "untrained", "human"]
POLICIES: tuple[str, ...] = get_args(Policy)


class Thought(NamedTuple):
    """What an agent would do, and what it makes of what it sees."""

    action: Any  # as the env takes it
    before: dict[str, Tensor]  # what it remembered, one row
    after: dict[str, Tensor]
    value: float | None = None
    choices: dict[str, list[float]] = {}  # noqa: RUF012, `probability` of each, or `mean` and `std`
    entropy: float | None = None

    def shown(self) -> dict[str, Any]:
        """As a `Step` has it."""
        state = {key: rows[0].cpu().numpy().copy() for key, rows in self.before.items()}
        return {"state": state, "choices": self.choices, "value": self.value}


class Thinker:
    """Has all that lasts between the steps of an episode. Noise depends on the seed and the step alone, so that a
    branch repeats it without a generator to save."""

    def __init__(self, net: Net, game: Game) -> None:
        self.net, self._game = net, game
        head = net.agent.head
        self._count = head.choices_of(game.task)
        self._padded = isinstance(head, TaskGaussianHead)
        self._sizes = head.sizes if isinstance(head, CategoricalHead) else None
        self.state: dict[str, Tensor] = {}

    def think(self, now: StepBatch, t: int, seed: int, sampled: bool, describe: bool = True) -> Thought:
        """Does not act: `state` stays as it is. An episode's first step begins with an empty memory. `describe`: with
        value and choices, which takes as long again."""
        net, starts = self.net, np.array([t == 0])
        if t == 0:
            self.state = net.agent.initial_state(1)
        choice = net.act(now.obs, self.state, starts, now.mask, noise(seed, t) if sampled else None)
        actions = net.agent.head.to_env(choice.action)
        action = actions[0, : self._count] if self._padded else actions[0]
        if not describe:
            return Thought(action, self.state, choice.state)
        found = Moment(now, actions, self.state, starts).describe(net)
        choices = {name: rows[0, : self._count].tolist() for name, rows in found.items() if name != "value"}
        entropy = entropy_of(choices, self._sizes)
        return Thought(action, self.state, choice.state, float(found["value"][0]), choices, entropy)

    def watch(
        self, obs: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_] | None, t: int, seed: int, sampled: bool
    ) -> None:
        """Goes on remembering, at a step of one env that is over."""
        seen = {key: array[np.newaxis] for key, array in obs.items()}
        allowed = None if mask is None else mask[np.newaxis]
        sample = noise(seed, t) if sampled else None
        self.state = self.net.act(seen, self.state, np.array([t == 0]), allowed, sample).state


def noise(seed: int, t: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(seed, "actions", t))


def random_action(game: Game, now: StepBatch, seed: int, t: int) -> Any:
    """Any that the env allows."""
    space, env, mask = game.engine.action_space, game.vec, now.mask
    if isinstance(space, gym.spaces.Discrete):  # a task may have fewer than the agent
        env, mask = game.engine, None if mask is None else mask[:, : int(space.n)]
    return same_actions(env, mask, derive_seed(seed, "random", t))[0]


def entropy_of(choices: Mapping[str, Sequence[float]], sizes: Sequence[int] | None) -> float:
    """In nats. `sizes`: choices of each component; None: bits, or a Gaussian before clipping and squashing."""
    if "std" in choices:
        return sum(0.5 * math.log(2 * math.pi * math.e) + math.log(std) for std in choices["std"] if std > 0)
    terms = [-p * math.log(p) if p > 0 else 0.0 for p in choices["probability"]]
    if sizes is None:
        terms += [-(1 - p) * math.log(1 - p) if p < 1 else 0.0 for p in choices["probability"]]
    return sum(terms)
