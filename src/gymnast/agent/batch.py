"""What networks and losses exchange: named columns of samples in, named vectors out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

VALUE = "value"  # the name of the value of the env's own reward; an extension may add others
OBS = "obs."  # columns of observations are called obs.KEY


@dataclass(slots=True)
class Batch:
    """Columns [B, ...] by name: tensors, or arrays once a compiled network has prepared them.

    For an agent with memory the samples are whole sequences, one after the other: `starts` is a column, and `state`
    holds what the agent remembered before each sequence, [sequences, ...] by name.
    """

    columns: dict[str, Any]
    state: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["action"])

    @property
    def units(self) -> int:
        """How many there are of what is shuffled: samples, or whole sequences."""
        return len(next(iter(self.state.values()))) if self.state else len(self)

    @property
    def mask(self) -> Any:
        return self.columns.get("mask")

    @property
    def obs(self) -> dict[str, Any]:
        return {name[len(OBS) :]: column for name, column in self.columns.items() if name.startswith(OBS)}

    def map(self, change: Callable[[Any], Any]) -> Batch:
        """Every column and state changed alike."""
        return Batch(
            {name: change(column) for name, column in self.columns.items()},
            {name: change(state) for name, state in self.state.items()},
        )

    def with_columns(self, **columns: Any) -> Batch:
        return Batch(self.columns | columns, self.state)


class Outputs(NamedTuple):
    """Of a batch, or the slopes of a loss with respect to them: [B] each; a slope that is None is 0 everywhere."""

    logp: Any
    entropy: Any
    values: dict[str, Any]  # by name
