"""Layers that normalise what the hidden layers make of observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gymnast.core import devices

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

EPS = 1e-5
SLOWEST = 0.1  # the share of a rollout in the running statistics; the first ones have more


class BatchNorm(nn.Module):
    """Batch norm by running statistics, in acting and in the loss alike; they move between rollouts, in `measure`.

    torch's own layer uses a minibatch's statistics in the loss and others in acting: an action's probability would then
    depend on the samples beside it, and PPO's ratio would differ from 1 before anything is learned.
    """

    mean: Tensor
    var: Tensor
    rollouts: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))
        self.register_buffer("rollouts", torch.zeros(()))
        self.measuring = False

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, ...]"""
        if self.measuring:
            var, mean = torch.var_mean(x, [axis for axis in range(x.ndim) if axis != 1], correction=0)
            self.rollouts += 1
            share = (1 / self.rollouts).clamp(min=SLOWEST)
            self.mean.lerp_(mean, share)
            self.var.lerp_(var, share)
        return F.batch_norm(x, self.mean, self.var, self.weight, self.bias, training=False, eps=EPS)


@torch.no_grad()
def measure(network: nn.Module, run: Callable[[], object]) -> None:
    """Moves the statistics of every batch norm of a network to what they see while it runs once."""
    layers = [layer for layer in network.modules() if isinstance(layer, BatchNorm)]
    if not layers:
        return
    for layer in layers:
        layer.measuring = True
    try:
        with devices.undivided_batches():  # threads would each see a part
            run()
    finally:
        for layer in layers:
            layer.measuring = False


def norm_layers(channels: int, cfg: AgentConfig, pictures: bool = False) -> list[nn.Module]:
    """What the config puts behind a layer of so many outputs: one layer, or none."""
    if cfg.batch_norm:
        return [BatchNorm(channels)]
    if cfg.layer_norm:  # of pictures all channels and pixels together
        return [nn.GroupNorm(1, channels) if pictures else nn.LayerNorm(channels)]
    return []
