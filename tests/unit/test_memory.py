"""The compiled recurrent layers against torch's own, forwards and backwards, and step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from gymnast.agent.memory import Memory, packed
from gymnast.config import AgentConfig, validate
from gymnast.training.build import build
from gymnast.training.record import to_be_compiled

INPUTS, SEQUENCES, LENGTH = 5, 6, 9


def made(kind: str, size: int) -> tuple[Memory, Tensor, dict[str, Tensor], Tensor]:
    """A layer, inputs, what it remembers before each sequence, and where episodes start: inside sequences too."""
    torch.manual_seed(size)
    memory = Memory(INPUTS, AgentConfig.model_validate({"memory": kind, "memory_size": size, "ortho_init": False}))
    x = torch.randn(SEQUENCES * LENGTH, INPUTS, requires_grad=True)
    state = {part: torch.randn(SEQUENCES, size) for part in memory.parts}
    starts = torch.rand(SEQUENCES * LENGTH) < 0.2
    starts[: 2 * LENGTH : LENGTH] = torch.tensor([True, False])
    return memory, x, state, starts


@pytest.mark.parametrize("size", [1, 3, 8, 13, 64])  # not multiples of what a loop takes at once, too
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_outputs_and_gradients_equal_torchs(kind: str, size: int) -> None:
    memory, x, state, starts = made(kind, size)
    weights = torch.randn(len(x), size)
    found = []
    for out in (memory.sequences(x, state, starts), packed(memory.cell, x, state, starts)):
        gradients = torch.autograd.grad((out * weights).sum(), [x, *memory.cell.parameters()])
        found.append((out, *gradients))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_it_equals_a_loop_over_torchs_cells(kind: str) -> None:
    """The definition: one step at a time, the state multiplied by 0 at a start."""
    memory, x, state, starts = made(kind, 7)
    out = memory.sequences(x, state, starts).view(SEQUENCES, LENGTH, 7)
    cell = (nn.LSTMCell if kind == "lstm" else nn.GRUCell)(INPUTS, 7)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in memory.cell.state_dict().items()})
    now = tuple(state.values())
    with torch.no_grad():
        for t in range(LENGTH):
            keeps = (~starts.view(SEQUENCES, LENGTH)[:, t, None]).float()
            kept = tuple(part * keeps for part in now)
            given = x.view(SEQUENCES, LENGTH, INPUTS)[:, t]
            following = cell(given, kept if kind == "lstm" else kept[0])
            now = following if kind == "lstm" else (following,)
            torch.testing.assert_close(out[:, t], now[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_step_is_a_sequence_of_one(kind: str) -> None:
    memory, x, state, starts = made(kind, 8)
    whole = memory.sequences(x, state, starts).view(SEQUENCES, LENGTH, 8)
    with torch.no_grad():
        for t in range(LENGTH):
            given = x.view(SEQUENCES, LENGTH, INPUTS)[:, t]
            out, state = memory.step(given, state, starts.view(SEQUENCES, LENGTH)[:, t])
            torch.testing.assert_close(out, whole[:, t], rtol=0, atol=0)


def test_nothing_passes_a_start() -> None:
    """Neither forwards nor backwards."""
    memory, x, state, starts = made("lstm", 4)
    starts[:] = False
    starts[4] = True
    out = memory.sequences(x, state, starts)
    (gradient,) = torch.autograd.grad(out[4:LENGTH].sum(), x)
    assert gradient[:4].abs().max() == 0
    assert gradient[4:LENGTH].abs().min() > 0
    other = {part: rows + 1 for part, rows in state.items()}
    torch.testing.assert_close(memory.sequences(x, other, starts)[4:LENGTH], out[4:LENGTH], rtol=0, atol=0)


def test_an_lstms_forget_gates_may_be_open_at_first() -> None:
    """Gates lie in torch's order: input, forget, cell, output. Both biases are added, so that one of them is 1."""
    memory = Memory(3, AgentConfig(memory="lstm", memory_size=5, forget_bias=1.0))
    biases = memory.cell.bias_ih_l0 + memory.cell.bias_hh_l0
    assert biases.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10
    for kind in ("lstm", "gru"):
        assert not Memory(3, AgentConfig(memory=kind, memory_size=5)).cell.bias_ih_l0.any()


@pytest.mark.parametrize("kind", ["lstm", "gru", None])
def test_what_must_be_compiled_first_is_announced(kind: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = {"hidden": [8]} if kind is None else {"hidden": [8], "memory": kind, "memory_size": 8}
    state = build(validate({"env": {"id": "CartPole-v1", "n_envs": 2}, "agent": agent, "algo": {"n_steps": 32}}), None)
    try:
        state.collector.fill(state.rollout, lambda phase: None)
        state.learner.targets(state.rollout)
        state.learner.update(state.rollout, 0.0)
        assert to_be_compiled(state) is None  # by now it is on the disk
        monkeypatch.setattr(Path, "glob", lambda path, pattern: iter(()))
        assert to_be_compiled(state) == ("fast network" if kind is None else f"{kind} memory")
    finally:
        state.close()
