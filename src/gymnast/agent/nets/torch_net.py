"""Any agent, on any device, by torch's autograd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from gymnast.agent.agent import Agent
from gymnast.agent.batch import Batch, Outputs
from gymnast.agent.heads import State
from gymnast.agent.nets.base import Arrays, Choice, Flags, Metrics, Net
from gymnast.agent.nets.optimizer import OPTIMIZERS, Optimizer
from gymnast.core import torch_private


class TorchNet(Net):
    """Rollouts are on the CPU; what goes through the network goes to its device and comes back."""

    compiled, trunks = False, 1

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.parts = {part: [p for p in ps if p.requires_grad] for part, ps in agent.parts().items()}
        self.optimizer: Optimizer
        self._outputs: Outputs

    def act(self, obs: Arrays, state: State, starts: Flags, mask: Flags | None, sample: Generator | None) -> Choice:
        here = self._here({"starts": starts} if mask is None else {"starts": starts, "mask": mask})
        acted = self.agent.act(self._here(obs), state, here["starts"], here.get("mask"), sample)
        values = {name: value.cpu() for name, value in acted.values.items()}
        return Choice(acted.action.cpu().numpy(), acted.logp.cpu(), values, acted.state)

    def values(self, obs: Arrays, state: State, starts: Flags) -> dict[str, Tensor]:
        values = self.agent.values(self._here(obs), state, torch.from_numpy(starts).to(self.agent.device))
        return {name: value.cpu() for name, value in values.items()}

    @torch.no_grad()
    def score(self, batch: Batch) -> Outputs:
        out = self.agent.evaluate(batch)
        return Outputs(out.logp.cpu(), out.entropy.cpu(), {name: value.cpu() for name, value in out.values.items()})

    def prepare(self, batch: Batch) -> Batch:
        device = self.agent.device
        return batch.map(lambda column: column.to(device))

    def shuffled(self, data: Batch, order: Tensor, size: int) -> Iterator[Batch]:
        units = max(1, size * data.units // len(data))  # as many whole sequences as make up that size
        for index in order.to(self.agent.device).split(units):
            yield take(data, index)

    def forward(self, batch: Batch) -> Outputs:
        self._outputs = self.agent.evaluate(batch)
        return self._outputs

    def backward(self, slopes: Outputs) -> None:
        out = self._outputs
        pairs = [(out.logp, slopes.logp), (out.entropy, slopes.entropy)]
        pairs += [(value, slopes.values[name]) for name, value in out.values.items()]
        given = [(tensor, slope) for tensor, slope in pairs if slope is not None and tensor.requires_grad]
        for parameter in self.optimizer.parameters.values():
            parameter.grad = None
        torch.autograd.backward([tensor for tensor, _ in given], [slope for _, slope in given])

    def step(self, rate: float, max_norm: float, critic_rate: float | None = None) -> dict[str, Tensor]:
        squares: dict[str, Tensor] = {}
        for part, parameters in self.parts.items():
            gradients = [p.grad for p in parameters if p.grad is not None]
            if gradients:
                squares[part] = torch.stack(torch_private.norms(gradients)).square().sum()
        norm = torch.stack(list(squares.values())).sum().sqrt()
        # The same rule as torch's clip_grad_norm_, on the norm that is computed anyway.
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        torch_private.multiply_([p.grad for p in self.optimizer.parameters.values() if p.grad is not None], scale)
        self.optimizer.step(rate, critic_rate)
        norms = {f"train/grad_norm/{part}": square.sqrt() for part, square in squares.items()}
        return {"train/grad_norm": norm, "train/grad_clipped_fraction": (norm > max_norm).float()} | norms

    def norm_metrics(self, steps: Sequence[Any], max_norm: float) -> Metrics:
        return mean_metrics(steps)

    def holds(self) -> bool:
        """What is trained is what the optimizer moves: someone may have frozen a layer, or put another in its place."""
        mine, now = self.optimizer.parameters, self._trained()
        return mine.keys() == now.keys() and all(now[name] is parameter for name, parameter in mine.items())

    def use_optimizer(self, name: str, **numbers: Any) -> None:
        self.optimizer = OPTIMIZERS[name](self._trained(), **numbers)

    def save_state(self) -> dict[str, Tensor]:
        return self.optimizer.save_state()

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self.optimizer.load_state(tensors)

    def _trained(self) -> dict[str, Tensor]:
        return {name: p for name, p in self.agent.named_parameters() if p.requires_grad}

    def _here(self, arrays: Arrays) -> dict[str, Tensor]:
        device = self.agent.device
        return {key: torch.from_numpy(array).to(device) for key, array in arrays.items()}


def take(data: Batch, index: Tensor) -> Batch:
    """The samples of that index, or the sequences where there are any."""
    length = len(data) // data.units
    rows = (index[:, None] * length + torch.arange(length, device=index.device)).flatten() if data.state else index
    columns = {name: rows_of(column, rows) for name, column in data.columns.items()}
    return Batch(columns, {name: state[index] for name, state in data.state.items()})


def rows_of(column: Tensor, index: Tensor) -> Tensor:
    """column[index]. Pictures are copied whole, in the order they lie in: pixel by pixel it takes ten times as long."""
    if column.dtype == torch.uint8 and column.ndim == 4:
        return column.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return column[index]


def mean_metrics(rows: Sequence[Mapping[str, Tensor]]) -> Metrics:
    """The mean of each metric over all gradient steps, not the last one's."""
    if not rows:
        return {}
    names = list(rows[0])
    table = torch.stack([torch.stack([row[name].detach() for name in names]) for row in rows]).mean(0)
    return dict(zip(names, table, strict=True))
