"""Torch's private loops over many tensors, and what takes their place in a version that has them no more."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import gymnast
from gymnast.core import torch_private

SHAPES = ((4, 3), (7,), (), (2, 3, 5))


def tensors(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def multiplied() -> list[Tensor]:
    torch_private.multiply_(found := tensors(0), torch.tensor(0.37))
    return found


def added() -> list[Tensor]:
    torch_private.add_(found := tensors(0), tensors(1))
    return found


def added_number() -> list[Tensor]:
    torch_private.add_(found := tensors(0), 1.0)
    return found


def moved_by_adam(weight_decay: float = 0.0, decoupled: bool = False) -> list[Tensor]:
    """Several steps: parameters, both moments and counts."""
    parameters, means, squares, steps = (
        tensors(0),
        *([torch.zeros(shape) for shape in SHAPES] for _ in range(2)),
        [torch.zeros(()) for _ in SHAPES],
    )
    for step in range(10):
        torch_private.add_(steps, 1.0)
        rate = 1e-2 / (step + 1)
        numbers = rate, (0.9, 0.999), 1e-5, weight_decay, decoupled
        torch_private.adam_(parameters, tensors(step + 1), means, squares, steps, *numbers)
    return [*parameters, *means, *squares, *steps]


CALLS: dict[str, list[Callable[[], list[Tensor]]]] = {
    "_foreach_norm": [lambda: torch_private.norms(tensors(0))],
    "_foreach_mul_": [multiplied],
    "_foreach_add_": [added, added_number, moved_by_adam],
    "_fused_adam_": [moved_by_adam, lambda: moved_by_adam(0.2)],
    "_fused_adamw_": [lambda: moved_by_adam(0.2, decoupled=True)],
}


@pytest.mark.parametrize("private", CALLS)
def test_the_public_way_gives_the_same_numbers(private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [call() for call in CALLS[private]]
    called = []

    def watched(*args: object, **kwargs: object) -> object:
        called.append(private)
        return original(*args, **kwargs)

    original = getattr(torch, private)
    monkeypatch.setattr(torch, private, watched)
    for call in CALLS[private]:
        call()
    assert called  # it is what was used
    monkeypatch.delattr(torch, private)
    for call, theirs in zip(CALLS[private], expected, strict=True):
        for mine, other in zip(call(), theirs, strict=True):
            torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-6)


def test_no_other_module_uses_what_is_private_to_torch() -> None:
    root = Path(gymnast.__file__).parent
    users = [path.name for path in root.rglob("*.py") if re.search(r"\btorch\._[a-z]", path.read_text("utf-8"))]
    assert users == []
