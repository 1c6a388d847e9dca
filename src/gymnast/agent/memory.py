"""What an agent remembers between steps: an LSTM or a GRU between its body and its heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from gymnast.core.lazy import LazyModule

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

kernels: Any = LazyModule("gymnast.agent.memory_kernels")
State = dict[str, Tensor]
KINDS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class Memory(nn.Module):
    """One recurrent layer. Its state is forgotten where an episode starts."""

    def __init__(self, inputs: int, cfg: AgentConfig) -> None:
        super().__init__()
        assert cfg.memory is not None
        self.cell = KINDS[cfg.memory](inputs, cfg.memory_size)
        self.parts = ("h", "c") if cfg.memory == "lstm" else ("h",)
        self.out_features = cfg.memory_size
        if cfg.ortho_init:
            for name, parameter in self.cell.named_parameters():
                nn.init.zeros_(parameter) if "bias" in name else nn.init.orthogonal_(parameter)
                if name == "bias_ih_l0" and cfg.memory == "lstm":
                    nn.init.constant_(parameter[cfg.memory_size : 2 * cfg.memory_size], cfg.forget_bias)

    def initial_state(self, n: int) -> State:
        device = next(self.parameters()).device
        return {part: torch.zeros(n, self.out_features, device=device) for part in self.parts}

    def step(self, x: Tensor, state: State, starts: Tensor) -> tuple[Tensor, State]:
        """One step [N, inputs] to [N, size] and the next state."""
        if x.device.type == "cpu":
            out, cells = scan(self.cell, x[:, None], starts[:, None], state)
            return out[:, 0], {"h": out[:, 0]} if cells is None else {"h": out[:, 0], "c": cells[:, 0]}
        kept = tuple((state[part] * (~starts)[:, None])[None] for part in self.parts)
        out, last = self.cell(x[None], kept if len(kept) > 1 else kept[0])
        return out[0], dict(zip(self.parts, (h[0] for h in (last if len(kept) > 1 else (last,))), strict=True))

    def sequences(self, x: Tensor, state: State, starts: Tensor) -> Tensor:
        """Sequences, one after the other: x [S * L, inputs] with the state before each [S, size] to [S * L, size]."""
        count = len(state["h"])
        if x.device.type == "cpu":
            return scan(self.cell, x.view(count, -1, x.shape[1]), starts.view(count, -1), state)[0].flatten(0, 1)
        return packed(self.cell, x, state, starts)


def packed(cell: nn.LSTM | nn.GRU, x: Tensor, state: State, starts: Tensor) -> Tensor:
    """`Memory.sequences` by torch's own layer, on any device: a sequence is cut where an episode starts inside it, and
    all pieces are packed and go through the layer in one call."""
    rows, length = len(x), len(x) // len(state["h"])
    begins = starts.clone()
    begins[::length] = True
    first = torch.nonzero(begins).flatten()  # of each piece
    lengths = torch.diff(first, append=first.new_full((1,), rows))
    order = torch.argsort(lengths, descending=True, stable=True)
    first, lengths = first[order], lengths[order]
    # The packed form: step 0 of all pieces, longest first, then step 1 of those that have one, and so on.
    time = torch.arange(int(lengths[0]), device=x.device)
    inside = time[:, None] < lengths
    index = (first + time[:, None])[inside]
    goes_on = (first % length == 0) & ~starts[first]  # a piece that continues what the stored state remembers
    initial = [(rows[first // length] * goes_on[:, None])[None] for rows in state.values()]
    out, _ = cell(PackedSequence(x[index], inside.sum(1).cpu()), tuple(initial) if len(initial) > 1 else initial[0])
    return torch.empty_like(out.data).index_copy(0, index, out.data)


def scan(cell: nn.LSTM | nn.GRU, x: Tensor, starts: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
    """x [S, T, inputs] to the outputs [S, T, size] and, of an LSTM, the cells; compiled, on the CPU."""
    weight_in, weight, bias_in, bias = cell.parameters()
    inputs = F.linear(x, weight_in, bias_in)
    h0 = state["h"].detach().numpy()
    flags = starts.numpy()
    if isinstance(cell, nn.LSTM):
        out, cells = _LSTM.apply(inputs + bias, weight, flags, h0, state["c"].detach().numpy())
        return out, cells
    return _GRU.apply(inputs, weight, bias, flags, h0), None


def _empty(*shape: int) -> Any:
    return np.empty(shape, np.float32)


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, starts: Any, h0: Any, c0: Any) -> tuple[Tensor, Tensor]:
        count, length, width = gates.shape
        numbers = gates.detach().numpy()  # of a sum made for this call: written to
        before, cells, out = (_empty(count, length, width // 4) for _ in range(3))
        weights = weight.detach().numpy()
        kernels.lstm_forward(numbers, np.ascontiguousarray(weights.T), starts, h0, c0, before, cells, out)
        ctx.kept = numbers, weights, starts, c0, before, cells
        made = torch.from_numpy(cells)
        ctx.mark_non_differentiable(made)
        return torch.from_numpy(out), made

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        numbers, weights, starts, c0, before, cells = ctx.kept
        slopes = np.empty_like(numbers)
        kernels.lstm_backward(gradients[0].contiguous().numpy(), numbers, weights, starts, c0, cells, slopes)
        return torch.from_numpy(slopes), _weight_gradient(slopes, before), None, None, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, starts: Any, h0: Any) -> Tensor:
        count, length, width = inputs.shape
        size = width // 3
        before, out, gates = _empty(count, length, size), _empty(count, length, size), _empty(count, length, 4 * size)
        weights, biases = weight.detach().numpy(), bias.detach().numpy()
        numbers = inputs.detach().contiguous().numpy()
        kernels.gru_forward(numbers, np.ascontiguousarray(weights.T), biases, starts, h0, before, gates, out)
        ctx.kept = gates, weights, starts, before
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        gates, weights, starts, before = ctx.kept
        count, length, size = before.shape
        inputs, hidden = _empty(count, length, 3 * size), _empty(count, length, 3 * size)
        kernels.gru_backward(gradients[0].contiguous().numpy(), gates, weights, starts, before, inputs, hidden)
        weight = _weight_gradient(hidden, before)
        return torch.from_numpy(inputs), weight, torch.from_numpy(hidden).sum((0, 1)), None, None


def _weight_gradient(slopes: Any, before: Any) -> Tensor:
    """Of the previous outputs' weights: one product over all steps."""
    return torch.from_numpy(slopes).flatten(0, 1).T @ torch.from_numpy(before).flatten(0, 1)
