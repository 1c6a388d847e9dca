"""A copy of a run's moment that training does not touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from gymnast.judge.verdict import EvalRequest, request_from_json

AGENT = "agent/"


@dataclass(frozen=True)
class Snapshot:
    """A moment that is still to be evaluated: all that a checkpoint of it needs, and its row of metrics."""

    request: EvalRequest
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    row: dict[str, float]
    steps: str  # as a table

    @property
    def agent(self) -> dict[str, Tensor]:
        return {name[len(AGENT) :]: tensor for name, tensor in self.tensors.items() if name.startswith(AGENT)}

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


def save_snapshots(snapshots: Sequence[Snapshot]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    tensors = {f"waiting/{i}/{name}": t for i, one in enumerate(snapshots) for name, t in one.tensors.items()}
    values = [
        {"request": asdict(one.request), "state": one.state, "row": one.row, "steps": one.steps} for one in snapshots
    ]
    return tensors, values


def load_snapshots(tensors: Mapping[str, Tensor], values: Sequence[Mapping[str, Any]]) -> list[Snapshot]:
    found = []
    for i, saved in enumerate(values):
        prefix = f"waiting/{i}/"
        own = {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
        found.append(Snapshot(request_from_json(saved["request"]), own, saved["state"], saved["row"], saved["steps"]))
    return found
