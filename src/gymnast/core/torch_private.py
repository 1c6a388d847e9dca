"""The private functions of torch that are used, each with a public fallback for a version that has it no more.

They are the loops over many tensors behind `torch.optim`, which is not used because making an optimizer imports torch's
compiler: that takes longer than a small run trains (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The Euclidean norm of each."""
    together = getattr(torch, "_foreach_norm", None)
    return list(together(tensors)) if together else [torch.linalg.vector_norm(tensor) for tensor in tensors]


def multiply_(tensors: Sequence[Tensor], factor: Tensor) -> None:
    _change("mul_", tensors, factor)


def add_(tensors: Sequence[Tensor], others: Sequence[Tensor] | float) -> None:
    _change("add_", tensors, others)


def _change(operation: str, tensors: Sequence[Tensor], others: Sequence[Tensor] | Tensor | float) -> None:
    """tensor.operation(other) for every tensor: one other for all, or one each."""
    if together := getattr(torch, f"_foreach_{operation}", None):
        together(tensors, others)
        return
    each = others if isinstance(others, Sequence) else [others] * len(tensors)
    for tensor, other in zip(tensors, each, strict=True):
        getattr(tensor, operation)(other)


def adam_(
    parameters: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> None:
    """One step of Adam, in place; of AdamW, where the decay is decoupled. `steps` count from 1."""
    fused = getattr(torch, "_fused_adamw_" if decoupled else "_fused_adam_", None)
    if fused:
        kinds = {"amsgrad": False, "maximize": False, "weight_decay": weight_decay}
        fused(
            parameters, gradients, means, squares, [], steps, lr=rate, beta1=betas[0], beta2=betas[1], eps=eps, **kinds
        )
        return
    for parameter, gradient, mean, square, step in zip(parameters, gradients, means, squares, steps, strict=True):
        if decoupled:
            parameter.mul_(1 - rate * weight_decay)
        elif weight_decay:
            gradient = gradient.add(parameter, alpha=weight_decay)
        mean.lerp_(gradient, 1 - betas[0])
        square.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
        count = float(step)
        root = square.sqrt().div_((1 - betas[1] ** count) ** 0.5).add_(eps)
        parameter.addcdiv_(mean, root, value=-rate / (1 - betas[0] ** count))
