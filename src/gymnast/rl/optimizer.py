"""Adam and RMSprop, number for number torch.optim's (`tests/unit/test_optimizer.py`).

torch.optim itself is not used because making one imports torch's compiler, which takes longer than a small run trains.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Optimizer:
    """Moments by parameter in `state`; `lr` is set before each step."""

    def __init__(self, parameters: Sequence[Tensor], eps: float) -> None:
        self.parameters = list(parameters)
        self.eps = eps
        self.lr = 0.0
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def moments(self) -> tuple[str, ...]:
        """The names of what is kept for each parameter, beside its count of steps."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Moves every parameter that has a gradient."""
        moving = [parameter for parameter in self.parameters if parameter.grad is not None]
        for parameter in moving:
            if parameter not in self.state:
                self.state[parameter] = {"step": torch.zeros((), device=parameter.device)} | {
                    name: torch.zeros_like(parameter) for name in self.moments()
                }
        states = [self.state[parameter] for parameter in moving]
        torch._foreach_add_([state["step"] for state in states], 1.0)
        self.apply(moving, [p.grad for p in moving if p.grad is not None], states)

    def apply(self, parameters: list[Tensor], gradients: list[Tensor], states: list[dict[str, Tensor]]) -> None:
        raise NotImplementedError


class Adam(Optimizer):
    betas = (0.9, 0.999)

    def moments(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def apply(self, parameters: list[Tensor], gradients: list[Tensor], states: list[dict[str, Tensor]]) -> None:
        torch._fused_adam_(
            parameters,
            gradients,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            lr=self.lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )


class RMSprop(Optimizer):
    alpha = 0.99

    def moments(self) -> tuple[str, ...]:
        return ("square_avg",)

    def apply(self, parameters: list[Tensor], gradients: list[Tensor], states: list[dict[str, Tensor]]) -> None:
        for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
            square = state["square_avg"].mul_(self.alpha).addcmul_(gradient, gradient, value=1 - self.alpha)
            parameter.addcdiv_(gradient, square.sqrt().add_(self.eps), value=-self.lr)
