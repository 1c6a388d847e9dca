"""Steps as a table that a person or a program reads."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast import config as configs
from gymnast.agent.heads import CategoricalHead, GaussianHead
from gymnast.envs.labels import action_labels, numbered
from gymnast.envs.suites import suite_of

if TYPE_CHECKING:
    from gymnast.agent.agent import Agent
    from gymnast.config import EnvConfig
    from gymnast.play.episode import Step

NAMED_COMPONENTS = 64  # of a leaf; a picture's pixels have no columns
RENAMED_BY = {"action_remap", "action_repeat"}  # wrappers after which an action's number means something else


@dataclass(frozen=True)
class Labels:
    """What actions and observations are called."""

    actions: list[str]  # one a choice, or one a component of a continuous action
    observations: dict[str, list[str]]  # by leaf; an empty list: too many to name
    sizes: Sequence[int] | None = None  # choices of each component; None: bits, or numbers
    bounds: Sequence[tuple[float, float]] | None = None  # of each component of a continuous action

    def chosen(self, action: Any) -> list[int]:
        """Which of all choices an action is: one of every component, or the bits that are 1."""
        flat = np.ravel(action).tolist()
        if self.sizes is None:
            return [i for i, bit in enumerate(flat) if bit]
        return [sum(self.sizes[:i]) + choice for i, choice in enumerate(flat)]

    def allows(self, mask: NDArray[np.bool_], action: Any) -> bool:
        """Whether a mask of all choices has those of an action."""
        return bool(np.all(mask[self.chosen(action)]))

    def text(self, action: Any) -> str:
        """An action in words: a label, the labels of several choices, or numbers as the env gets them."""
        if self.bounds is not None:
            return ", ".join(f"{number:.3f}" for number in np.ravel(action))
        return ", ".join(self.actions[choice] for choice in self.chosen(action)) or "nothing"


def labels_of(agent: Agent, env: EnvConfig, own: Sequence[str] | None = None, task: int | None = None) -> Labels:
    """Names from the facts of the env where they fit the spaces, the env's `own` names of actions, or numbers. `task`:
    which of the agent's, where it is for several and only this one is looked at."""
    facts, head = configs.load_facts(env.id), agent.head
    leaves = agent.obs_space if agent.tasks is None or task is None else agent.tasks.obs[task]
    described = [fact.name for fact in facts.observations] if facts is not None and len(leaves) == 1 else []
    known = suite_of(env.id).observation_labels(env.kwargs) or described
    observations: dict[str, list[str]] = {}
    for key, space in leaves.items():
        count = 1 if isinstance(space, gym.spaces.Discrete) else math.prod(space.shape or ())
        names = [key] if count == 1 else [f"{key} {i}" for i in range(min(count, NAMED_COMPONENTS))]
        observations[key] = [] if count > NAMED_COMPONENTS else known if len(known) == count else names
    sizes = head.sizes if isinstance(head, CategoricalHead) else None
    bounds = None
    if isinstance(head, GaussianHead):
        low, high = np.where(np.isfinite(head.low), head.low, -1.0), np.where(np.isfinite(head.high), head.high, 1.0)
        bounds = list(zip(low.tolist(), high.tolist(), strict=True))[: head.choices_of(task)]
    count = head.choices_of(task)
    if RENAMED_BY & {spec.name for spec in env.wrappers}:
        actions = numbered(count, sizes)
    elif env.forbid:  # what is left of the env's actions has names of its own
        actions = list(own) if own and len(own) == count else numbered(count, sizes)
    else:
        actions = action_labels(env, own, count, sizes)
    return Labels(actions, observations, sizes, bounds)


def rollout_labels(agent: Agent, env: EnvConfig, own: Sequence[str] | None) -> Labels:
    """Of what rollouts keep: of pictures with a tracker, the objects found in them."""
    labels = labels_of(agent, env, own)
    if agent.tracker is None:
        return labels
    return replace(labels, observations=dict.fromkeys(labels.observations, agent.tracker.names))


def step_table(steps: Iterable[Step], labels: Labels) -> list[dict[str, Any]]:
    """A row for each action: what was observed, what was done, what the agent made of it, and what came of it."""
    return [_row(step, labels) for step in steps if step.action is not None]


def _row(step: Step, labels: Labels) -> dict[str, Any]:
    row: dict[str, Any] = {"env": step.env, "t": step.t}
    for key, names in labels.observations.items():
        if names:
            row |= zip(names, np.ravel(step.obs[key]).tolist(), strict=True)
    row["action"] = labels.text(step.action)
    if step.probability is not None:
        row["probability"] = step.probability
    for name, numbers in step.choices.items():
        short = "p" if name == "probability" else name
        row |= {f"{short} {label}": number for label, number in zip(labels.actions, numbers, strict=True)}
    outcome = {"value": step.value, "reward": step.reward, **step.learned}
    return row | outcome | {"terminated": step.terminated, "truncated": step.truncated}


def to_csv(table: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()
