"""Adam, AdamW and RMSprop, number for number torch.optim's (`tests/unit/test_optimizer.py`).

torch.optim itself is not used because making one imports torch's compiler, which takes longer than a small run trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from gymnast.core import torch_private
from gymnast.core.errors import UserError

Tensors = list[Tensor]
State = dict[str, Tensor]  # what is kept of a parameter


class Optimizer:
    """Keeps `moments` and a count of steps for each parameter, by its name, from its first gradient on."""

    moments: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        eps: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        self.parameters, self.eps, self.betas, self.weight_decay = dict(parameters), eps, betas, weight_decay
        self.state: dict[str, State] = {}

    @torch.no_grad()
    def step(self, rate: float, critic_rate: float | None = None) -> None:
        """Moves every parameter that has a gradient, the critic's by a rate of their own where one is given."""
        moving = {name: p for name, p in self.parameters.items() if p.grad is not None}
        for name, parameter in moving.items():
            if name not in self.state:
                self.state[name] = {"step": torch.zeros((), device=parameter.device)} | {
                    moment: torch.zeros_like(parameter) for moment in self.moments
                }
        torch_private.add_([self.state[name]["step"] for name in moving], 1.0)
        critics = {name for name in moving if critic_rate is not None and name.startswith("critic")}
        for names, its_rate in ((moving.keys() - critics, rate), (critics, critic_rate)):
            if names and its_rate is not None:
                some = [name for name in moving if name in names]
                gradients = [p.grad for name in some if (p := moving[name]).grad is not None]
                self.apply([moving[name] for name in some], gradients, [self.state[name] for name in some], its_rate)

    def apply(self, parameters: Tensors, gradients: Tensors, states: list[State], rate: float) -> None:
        raise NotImplementedError

    def save_state(self) -> dict[str, Tensor]:
        return {f"{name}/{moment}": t for name, state in self.state.items() for moment, t in state.items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """What was remembered of a parameter that is no longer trained, or has another shape by now, is left out."""
        check_moments(tensors, self.moments)
        self.state.clear()
        for name, mine in self.parameters.items():
            kept = {part: tensors.get(f"{name}/{part}") for part in ("step", *self.moments)}
            fits = {
                part: one
                for part, one in kept.items()
                if one is not None and (part == "step" or one.shape == mine.shape)
            }
            if len(fits) == len(kept):
                self.state[name] = {moment: tensor.to(mine.device).clone() for moment, tensor in fits.items()}


class Adam(Optimizer):
    moments = ("exp_avg", "exp_avg_sq")
    decoupled = False  # whether weights decay by themselves, or through the gradient as an L2 term would

    def apply(self, parameters: Tensors, gradients: Tensors, states: list[State], rate: float) -> None:
        means, squares, steps = ([state[name] for state in states] for name in (*self.moments, "step"))
        numbers = rate, self.betas, self.eps, self.weight_decay, self.decoupled
        torch_private.adam_(parameters, gradients, means, squares, steps, *numbers)


class AdamW(Adam):
    decoupled = True


class RMSprop(Optimizer):
    moments = ("square_avg",)
    alpha = 0.99

    def apply(self, parameters: Tensors, gradients: Tensors, states: list[State], rate: float) -> None:
        for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
            if self.weight_decay:
                gradient = gradient.add(parameter, alpha=self.weight_decay)
            square = state["square_avg"].mul_(self.alpha).addcmul_(gradient, gradient, value=1 - self.alpha)
            parameter.addcdiv_(gradient, square.sqrt().add_(self.eps), value=-rate)


def check_moments(tensors: Mapping[str, Tensor], moments: tuple[str, ...]) -> None:
    """Refuses what another optimizer has saved, and what none can have: one step with it would ruin the agent."""
    others = {key.rpartition("/")[2] for key in tensors} - {"step", *moments}
    if others:
        raise UserError(
            f"the checkpoint has another optimizer's moments: {', '.join(sorted(others))}, not {', '.join(moments)}. "
            "Keep algo.name and algo.optimizer as they were, or resume with --reset-optimizer."
        )
    for key, tensor in tensors.items():
        if not bool(tensor.isfinite().all()) or (not key.endswith("/exp_avg") and bool((tensor < 0).any())):
            raise UserError(
                f"the checkpoint's optimizer holds numbers that are not finite or below 0: {key}. Resume with "
                "--reset-optimizer, which keeps the agent."
            )


OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW, "rmsprop": RMSprop}
