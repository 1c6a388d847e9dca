"""The convolutional network of DQN (Mnih et al., Nature 2015), for pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gymnast.agent.bodies.mlp import MLPEncoder, orthogonal
from gymnast.agent.bodies.parallel import in_parts
from gymnast.core.errors import UserError

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, side of the kernel, stride
FEATURES = 512
SMALLEST = 36  # pixels a side: (36 - 8) / 4 + 1 = 8, (8 - 4) / 2 + 1 = 3, 3 - 3 + 1 = 1


def is_picture(space: gym.Space) -> bool:
    return isinstance(space, gym.spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


class Convolution(nn.Module):
    """A convolution whose weight lies in memory as channels-last arithmetic wants it: [out, height, width, in].

    A `nn.Conv2d` in that layout has parameters with strides of their own, and so would everything made of them:
    gradients, moments, checkpoints. This one's parameters are plain arrays. `scale` is that of its input.
    """

    def __init__(self, channels: int, out: int, side: int, stride: int, scale: float, cfg: AgentConfig) -> None:
        super().__init__()
        self.stride, self.scale = stride, scale
        self.weight = nn.Parameter(torch.empty(out, side, side, channels))
        self.bias = nn.Parameter(torch.zeros(out))
        if cfg.ortho_init:
            nn.init.orthogonal_(self.weight, math.sqrt(2))
        else:  # as torch starts its own
            nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
            bound = 1 / math.sqrt(side * side * channels)
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight if self.scale == 1.0 else self.weight * self.scale  # thousands of numbers, not millions
        return F.conv2d(x, weight.permute(0, 3, 1, 2), self.bias, self.stride)


class Pictures(nn.Module):
    """[B, C, H, W] of bytes to 512 features. Bytes become floats here and nowhere earlier."""

    out_features = FEATURES

    def __init__(self, key: str, shape: tuple[int, ...], cfg: AgentConfig) -> None:
        super().__init__()
        channels, *sides = shape
        if min(sides) < SMALLEST:
            raise UserError(
                f"agent.encoder: nature_cnn needs pictures of at least {SMALLEST} x {SMALLEST} pixels; "
                f"observation {key!r} has {sides[0]} x {sides[1]}. Use agent.encoder=mlp."
            )
        convolutions = []
        for i, (out, side, stride) in enumerate(LAYERS):
            convolutions.append(Convolution(channels, out, side, stride, 1.0 if i else 1 / 255, cfg))
            sides, channels = [(n - side) // stride + 1 for n in sides], out
        self.convolutions = nn.ModuleList(convolutions)
        self.linear = orthogonal(nn.Linear(sides[0] * sides[1] * channels, FEATURES), math.sqrt(2), cfg)

    def forward(self, x: Tensor) -> Tensor:
        return in_parts(self.features, list(self.parameters()), x)

    def features(self, x: Tensor) -> Tensor:
        x = x.to(torch.float32, memory_format=torch.channels_last)
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
        return F.relu(self.linear(x.permute(0, 2, 3, 1).flatten(1)))  # in the order it lies in: nothing is moved


class NatureCNN(MLPEncoder):
    """Every picture through its own convolutions; other leaves next to their features; then `agent.hidden`, if any."""

    is_large = True  # worth several threads

    def __init__(self, obs_space: dict[str, gym.Space], cfg: AgentConfig) -> None:
        if not any(is_picture(space) for space in obs_space.values()):
            shown = ", ".join(f"{key}: {space}" for key, space in obs_space.items())
            raise UserError(
                f"agent.encoder: nature_cnn reads pictures (uint8, three axes); the observation has none ({shown}). "
                "Use agent.encoder=mlp."
            )
        super().__init__(obs_space, cfg)

    def leaf_encoder(self, key: str, space: gym.Space, cfg: AgentConfig) -> Any:
        return Pictures(key, space.shape or (), cfg) if is_picture(space) else super().leaf_encoder(key, space, cfg)
