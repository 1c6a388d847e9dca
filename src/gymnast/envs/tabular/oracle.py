"""Exact answers for envs with a transition table: the best possible return, and what any policy earns, both under the
time limit.

A table is read off the env itself: `P[state][action] = [(probability, next state, reward, terminated), ...]` and
`initial_state_distrib`, as Gymnasium's toy text envs, the bandits here, and any env of a user's that has both. Values
are undiscounted sums over the steps that are left, so the best policy may depend on how many those are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.config.facts import Optimum
from gymnast.envs.forbid import Forbid
from gymnast.envs.make import make_env
from gymnast.envs.recorder import Recorder
from gymnast.envs.spaces import ObsLayout
from gymnast.envs.types import Obs, VecEnv
from gymnast.envs.wrappers.actions import ActionRemap
from gymnast.envs.wrappers.base import NamedWrapper
from gymnast.envs.wrappers.time_limit import TimeLimit

if TYPE_CHECKING:
    from gymnast.config import EnvConfig

Floats = NDArray[np.float64]
DIGITS = 4  # that an optimum is shown with, and that a threshold is held against
_PLAIN_LAYERS = (Recorder, gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker, gym.wrappers.TimeLimit)


@dataclass(frozen=True, eq=False)
class Table:
    """An env as numbers, with the agent's actions. K is the most outcomes that an action has."""

    chance: Floats  # [states, actions, K] of going on to a state; nothing of what ends the episode
    following: NDArray[np.int64]  # [states, actions, K] that state
    reward: Floats  # [states, actions] expected
    start: Floats  # [states] probability
    horizon: int  # env steps until the time limit
    obs: Obs  # [states, ...] what the agent sees
    mask: NDArray[np.bool_] | None = None  # [states, actions] it may choose; None: all

    def action_values(self, value: Floats) -> Floats:
        """Expected return of each action, if `value` is earned from the next state on."""
        return self.reward + (self.chance * value[self.following]).sum(axis=2)

    @cached_property
    def best_value(self) -> float:
        """Expected return of the best policy."""
        return float(self.start @ self.best_values[0])

    @cached_property
    def best_values(self) -> tuple[Floats, Floats]:
        """[states], and [states, actions] if the best is done afterwards, with all of the time left: backward
        induction, from the last step to the first."""
        forbidden = 0.0 if self.mask is None else np.where(self.mask, 0.0, -np.inf)
        value, after = self._from_the_end(lambda value: (self.action_values(value) + forbidden).max(axis=1))
        return value, self.action_values(after) + forbidden

    def value_of(self, policy: Floats) -> float:
        """Expected return of a policy [states, actions] of probabilities that does not depend on the time."""
        return float(self.start @ self.values_of(policy))

    def values_of(self, policy: Floats) -> Floats:
        """[states] of a policy, with all of the time left."""
        moves = policy[:, :, np.newaxis] * self.chance
        gain = (policy * self.reward).sum(axis=1)
        return self._from_the_end(lambda value: gain + (moves * value[self.following]).sum(axis=(1, 2)))[0]

    def _from_the_end(self, step_before: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """The values of all states with all of the time left, and with one step less, if `step_before` says from values
        what they are a step earlier."""
        value = after = np.zeros(len(self.start))
        for _ in range(self.horizon):
            after, value = value, step_before(value)
            if np.array_equal(value, after):  # a fixed point: so it stays for all steps before
                break
        return value, after

    @property
    def optimum(self) -> Optimum:
        """Rounded, and with where it comes from."""
        starts = np.count_nonzero(self.start)
        mean = f", mean over its {starts} starts" if starts > 1 else ""
        steps = f"{self.horizon:,} step{'s' if self.horizon > 1 else ''}"
        return Optimum(round(self.best_value, DIGITS), f"backward induction over the transition table, {steps}{mean}")


def find_table(cfg: EnvConfig) -> Table | None:
    """The table of an env as evaluation makes it, or None: it has no table or no time limit, its table is not all there
    is to it, or a wrapper makes it another task than the table's."""
    env = make_env(cfg, "eval")
    try:
        return _read(env, cfg)
    finally:
        env.close()


def table_of(cfg: EnvConfig, env: VecEnv) -> Table | None:
    """`find_table` for one who has a vector of these envs: it makes none where the spaces already say that there is no
    table."""
    leaves = list(env.obs_space.values())
    is_small = len(leaves) == 1 and len(leaves[0].shape or ()) <= 1
    return find_table(cfg) if is_small and isinstance(env.action_space, spaces.Discrete) else None


def _read(env: gym.Env[Any, Any], cfg: EnvConfig) -> Table | None:
    base: Any = env.unwrapped
    states, choices = base.observation_space, base.action_space
    if not (isinstance(getattr(base, "P", None), dict) and hasattr(base, "initial_state_distrib")):
        return None
    if not all(isinstance(space, spaces.Discrete) and space.start == 0 for space in (states, choices)):
        return None
    twin = make_env(cfg, "eval")
    twin.close()
    if base.P != twin.unwrapped.P:  # type: ignore[attr-defined]
        return None  # a new map for every env
    if getattr(base, "fickle_passenger", False):
        return None  # Taxi's passenger changes their mind, which the table does not say
    limits = [base.horizon] if hasattr(base, "horizon") else []  # a bandit's pulls
    actions = np.arange(choices.n)
    layer: gym.Env[Any, Any] = env
    remaps: list[list[Any]] = []
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, gym.wrappers.TimeLimit) and layer.spec and layer.spec.max_episode_steps:
            limits.append(layer.spec.max_episode_steps)
        elif isinstance(layer, TimeLimit):
            limits.append(layer.steps)
        elif isinstance(layer, ActionRemap | Forbid):
            remaps.append(layer.actions)
        if not (layer.is_transparent if isinstance(layer, NamedWrapper) else isinstance(layer, _PLAIN_LAYERS)):
            return None
        layer = layer.env
    if not limits:
        return None
    for chosen in reversed(remaps):  # the innermost names actions of the env, the next one names those
        actions = actions[chosen]
    seen = _views(env, cfg.action_masks)
    return None if seen is None else Table(*_outcomes(base, actions), min(limits), *seen)


def _outcomes(base: Any, actions: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64], Floats, Floats]:
    """chance, following, reward and start of a Table."""
    n_states, width = len(base.P), max(len(row) for state in base.P.values() for row in state.values())
    chance = np.zeros((n_states, len(actions), width))
    following = np.zeros((n_states, len(actions), width), np.int64)
    reward = np.zeros((n_states, len(actions)))
    for state, of_actions in base.P.items():
        for column, action in enumerate(actions.tolist()):
            for place, (probability, then, gain, ends) in enumerate(of_actions[action]):
                reward[state, column] += probability * gain
                chance[state, column, place] = 0.0 if ends else probability
                following[state, column, place] = then
    return chance, following, reward, np.array(base.initial_state_distrib, np.float64)


def _views(env: gym.Env[Any, Any], masked: bool) -> tuple[Obs, NDArray[np.bool_] | None] | None:
    """What the agent sees and may do in each state: the env itself is asked, by starting it there."""
    base: Any = env.unwrapped
    states = len(base.P)
    layout = ObsLayout(env.observation_space)
    obs = layout.allocate(states)
    masks = []
    begins = base.initial_state_distrib
    try:
        for state in range(states):
            base.initial_state_distrib = np.eye(1, states, state)[0]
            if base.reset(seed=0)[0] != state:
                return None  # its states are not what it shows
            observation, info = env.reset(seed=0)
            layout.write(obs, state, observation)
            if masked:
                masks.append(np.asarray(info.get("action_mask", True), bool))
    finally:
        base.initial_state_distrib = begins
    if not masked:
        return obs, None
    mask = np.array(masks)
    return obs, mask | ~mask.any(axis=1, keepdims=True)  # a state without any action is past an end, never acted in
