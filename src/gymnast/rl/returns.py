"""Returns and advantages: pure functions of [T, N] tensors; `tests/unit/test_returns.py` has them on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymnast.agent.batch import VALUE
from gymnast.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

IMPORTANCE = "importance"  # the stream of what `gae` weighs steps by, in rollouts that older policies take part in


def returns_of(value: str) -> str:
    """The stream that holds what a value is taught."""
    return "returns" if value == VALUE else f"{value}_returns"


def gae(
    reward: Tensor,
    value: Tensor,
    last_value: Tensor,
    final_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    lam: float,
    importance: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates and the returns they imply (advantage + value).

    What follows a step is worth `final_value` where a time limit cut the episode, 0 where the episode really ended,
    and otherwise the next row's value (`last_value` [N] after the last row). Nothing is carried over either end.

    `importance`: min(1, how likely the learner is to do what was done / how likely the one was who did it), for steps
    of an older policy. The returns are then V-trace's targets (Espeholt et al., 2018) with both limits at 1 and
    `lam`, and the advantage is the target minus the value: A = importance * (delta + gamma * lam * next A). Where all
    are 1 that is generalised advantage estimation itself.
    """
    next_value = torch.cat([value[1:], last_value[None]])
    next_value = torch.where(truncated, final_value, next_value).masked_fill(terminated, 0.0)
    delta = reward + gamma * next_value - value
    carry = gamma * lam * (~(terminated | truncated)).to(delta.dtype)
    if importance is not None:
        delta, carry = importance * delta, importance * carry
    advantage = delta.clone()
    # Arrays on the tensors' memory: the loop is all overhead, and NumPy has a third of torch's.
    rows, factors = advantage.numpy(), carry.numpy()
    for t in range(len(rows) - 2, -1, -1):
        rows[t] += factors[t] * rows[t + 1]
    return advantage, advantage + value


def centred(advantage: Tensor, importance: Tensor) -> Tensor:
    """V-trace's advantages less `importance` times the one number that leaves a mean of 0: a baseline.

    A constant would be none, as steps that the learner makes less likely count less. Where all weights are 1 it is the
    mean.
    """
    return advantage - importance * (advantage.sum() / importance.sum().clamp(min=1e-8))


def discounted_returns(reward: Tensor, ended: Tensor, gamma: float) -> Tensor:
    """Monte-Carlo returns of a row of complete episodes [T]: the discounted rewards up to each episode's end."""
    returns = []
    running = 0.0
    for r, end in zip(reversed(reward.tolist()), reversed(ended.tolist()), strict=True):
        running = r + (0.0 if end else gamma * running)
        returns.append(running)
    return torch.tensor(returns[::-1], dtype=reward.dtype)
