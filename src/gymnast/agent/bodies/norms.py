"""Layers that normalise pictures, and what hidden layers make of observations."""

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
SLOWEST_PIXELS = 0.01  # the same of pixels, which learning does not move


class BatchNorm(nn.Module):
    """Batch norm by running statistics, in acting and in the loss alike; they move between rollouts, in `measure`.

    torch's own layer uses a minibatch's statistics in the loss and others in acting: an action's probability would then
    depend on the samples beside it, and PPO's ratio would differ from 1 before anything is learned.
    """

    samples = 1024  # of a rollout that statistics are taken from
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


class PictureNorm(nn.Module):
    """Subtracts the running mean of every pixel. `scale` is 1 / the standard deviation of all pixels around it: the
    first convolution multiplies its weights by it, which costs nothing.

    What moves on a screen, a ball of a few grey pixels on a grey ground, is otherwise a small part of the input.
    """

    samples = 128  # few: hundreds of rollouts are averaged, and a pass through the network costs time
    mean: Tensor
    var: Tensor
    rollouts: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(*shape[1:], shape[0]))  # channels last, as pictures lie in memory
        self.register_buffer("var", torch.tensor(255.0**2))  # bytes are 0..1 until something was measured
        self.register_buffer("rollouts", torch.zeros(()))
        self.measuring = False

    @classmethod
    def of(cls, shape: tuple[int, ...], cfg: AgentConfig) -> PictureNorm | None:
        return cls(shape) if cfg.normalize_pictures else None

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W]"""
        mean = self.mean.permute(2, 0, 1)
        if self.measuring:
            self.rollouts += 1
            share = (1 / self.rollouts).clamp(min=SLOWEST_PIXELS)
            mean.lerp_(x.mean(0), share)
            self.var.lerp_((x - mean).square().mean(), share)
        return x - mean

    @property
    def scale(self) -> Tensor:
        return (self.var + 1.0).rsqrt()  # brightnesses are whole numbers: less than 1 of variance is nothing to see


@torch.no_grad()
def measure(network: nn.Module, rows: int, run: Callable[[slice], object]) -> None:
    """Moves the statistics of every norm that has some to what they see while the network runs once, on some of these
    rows."""
    layers = [layer for layer in network.modules() if isinstance(layer, BatchNorm | PictureNorm)]
    if not layers:
        return
    stride = -(-rows // max(layer.samples for layer in layers)) | 1  # odd: not always the same envs'
    for layer in layers:
        layer.measuring = True
    try:
        with devices.undivided_batches():  # threads would each see a part
            run(slice(None, None, stride))
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
