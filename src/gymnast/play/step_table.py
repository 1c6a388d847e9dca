"""Steps as a table that a person or a program reads."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from torch import Tensor

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, Batch
from gymnast.agent.heads import BernoulliHead, CategoricalHead
from gymnast.rl.rollout import Rollout

if TYPE_CHECKING:
    from gymnast.config import EnvFacts

NAMED_COMPONENTS = 64  # of a leaf; a picture's pixels have no columns


@dataclass(frozen=True)
class Labels:
    """What actions and observations are called."""

    actions: list[str]  # one a choice, or one a component of a continuous action
    observations: dict[str, list[str]]  # by leaf; an empty list: too many to name


@dataclass(frozen=True)
class StepTable:
    columns: list[str]
    rows: list[list[Any]]

    def to_csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()


def labels_of(agent: Agent, facts: EnvFacts | None) -> Labels:
    """The facts' names where they fit the agent's spaces, else numbers."""
    observations: dict[str, list[str]] = {}
    for key, space in agent.obs_space.items():
        count = 1 if isinstance(space, gym.spaces.Discrete) else math.prod(space.shape or ())
        known = [fact.name for fact in facts.observations] if facts is not None and len(agent.obs_space) == 1 else []
        if count > NAMED_COMPONENTS:
            observations[key] = []
        else:
            observations[key] = known if len(known) == count else _numbered(key, count)
    actions = facts.actions if facts is not None else []
    count = agent.head.n_mask or math.prod(agent.head.shape)
    return Labels(list(actions) if len(actions) == count else _numbered("action", count), observations)


def rollout_table(agent: Agent, rollout: Rollout, labels: Labels, env: int = 0, limit: int = 64) -> StepTable:
    """The first steps of one env of a rollout that has been learned from: observation, action, what the agent makes of
    it, and what came of it.

    `p ...`, `mean ...` and `std ...` are the agent's as it is now; `probability` and `value` are those of the moment
    the action was chosen (of continuous actions: the density).
    """
    length = rollout.sequence_length
    if length is not None:  # whole sequences, for a memory to run through
        limit = max(length, limit // length * length)
    steps = {name: stream[:limit, env] for name, stream in rollout.streams.items()}
    state = {name: states[: limit // (length or 1), env] for name, states in rollout.states.items()}
    batch = Batch(steps, state).map(lambda column: column.to(agent.device))
    now = {name: tensor.cpu() for name, tensor in agent.describe(batch).items()}
    del now["value"]
    count = len(steps["reward"])
    table: dict[str, Sequence[Any]] = {
        "env": [env] * count,
        "t": range(count),
    }
    for key, names in labels.observations.items():
        columns = steps[OBS + key].reshape(count, -1)
        table |= {name: columns[:, i].tolist() for i, name in enumerate(names)}
    table["action"] = [action_text(agent, action, labels) for action in steps["action"]]
    table["probability"] = steps["logp"].exp().tolist()
    for name, numbers in now.items():
        short = "p" if name == "probability" else name
        table |= {f"{short} {label}": numbers[:, i].tolist() for i, label in enumerate(labels.actions)}
    shown = {"return": "returns"}
    for name in ("value", "reward", "return", "advantage", "terminated", "truncated"):
        table[name] = steps[shown.get(name, name)].tolist()
    return StepTable(list(table), [list(row) for row in zip(*table.values(), strict=True)])


def action_text(agent: Agent, action: Tensor, labels: Labels) -> str:
    """One stored action in words: a label, the labels of several choices, or numbers as the env gets them."""
    head, numbers = agent.head, action.cpu().numpy()
    if isinstance(head, CategoricalHead):
        starts = itertools.accumulate(head.sizes[:-1], initial=0)
        choices = [start + choice for start, choice in zip(starts, numbers.reshape(-1).tolist(), strict=True)]
        return ", ".join(labels.actions[choice] for choice in choices)
    if isinstance(head, BernoulliHead):
        return ", ".join(label for label, on in zip(labels.actions, numbers.tolist(), strict=True) if on) or "nothing"
    return ", ".join(f"{number:.3f}" for number in head.to_env(numbers[None]).reshape(-1))


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 and name != "action" else [f"{name} {i}" for i in range(count)]
