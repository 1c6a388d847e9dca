"""What an agent remembers between steps: an LSTM or a GRU between its body and its heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

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
                nn.init.zeros_(parameter) if "bias" in name else nn.init.orthogonal_(parameter, math.sqrt(1))

    def initial_state(self, n: int) -> State:
        device = next(self.parameters()).device
        return {part: torch.zeros(n, self.out_features, device=device) for part in self.parts}

    def step(self, x: Tensor, state: State, starts: Tensor) -> tuple[Tensor, State]:
        """One step [N, inputs] to [N, size] and the next state."""
        out, state = self._run(x[None], {part: self._kept(state[part], starts)[None] for part in self.parts})
        return out[0], {part: state[part][0] for part in self.parts}

    def sequences(self, x: Tensor, state: State, starts: Tensor) -> Tensor:
        """Sequences, one after the other: x [S * L, inputs] with the state before each [S, size] to [S * L, size].

        A sequence is cut where an episode starts inside it. All pieces are packed and go through the layer in one call.
        """
        rows, length = len(x), len(x) // len(state["h"])
        begins = starts.clone()
        begins[::length] = True
        first = torch.nonzero(begins).flatten()  # of each piece
        lengths = torch.diff(first, append=first.new_tensor([rows]))
        order = torch.argsort(lengths, descending=True, stable=True)
        first, lengths = first[order], lengths[order]
        # The packed form: step 0 of all pieces, longest first, then step 1 of those that have one, and so on.
        time = torch.arange(int(lengths[0]), device=x.device)
        inside = time[:, None] < lengths
        index = (first + time[:, None])[inside]
        goes_on = (first % length == 0) & ~starts[first]  # a piece that continues what the stored state remembers
        initial = {part: self._kept(state[part][first // length], ~goes_on)[None] for part in self.parts}
        packed = PackedSequence(x[index], inside.sum(1).cpu())
        out, _ = self._run(packed, initial)
        return torch.empty_like(out.data).index_copy(0, index, out.data)

    def _run(self, x: Tensor | PackedSequence, state: State) -> tuple[Tensor | PackedSequence, State]:
        out, last = self.cell(x, (state["h"], state["c"]) if "c" in state else state["h"])
        return out, dict(zip(self.parts, last if "c" in state else (last,), strict=True))

    @staticmethod
    def _kept(state: Tensor, forget: Tensor) -> Tensor:
        return state * (~forget)[:, None]
