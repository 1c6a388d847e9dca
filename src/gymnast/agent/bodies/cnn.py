"""Convolutional networks for pictures: that of DQN (Mnih et al., Nature 2015), and one for small pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gymnast.agent.bodies.mlp import MLPEncoder, orthogonal
from gymnast.agent.bodies.parallel import in_parts
from gymnast.config.schema import SMALLEST_PICTURE, encoder_for
from gymnast.core.errors import UserError
from gymnast.core.observations import is_picture

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

FEATURES = 512
HALVED = 12  # pixels a side, above which a small network's convolution takes every other one
Layers = tuple[tuple[int, int, int | None], ...]


class Convolution(nn.Module):
    """A convolution whose weight lies in memory as channels-last arithmetic wants it: [out, height, width, in].

    A `nn.Conv2d` in that layout has parameters with strides of their own, and so would everything made of them:
    gradients, moments, checkpoints. This one's parameters are plain arrays. `scale` is that of its input.
    """

    def __init__(
        self, channels: int, out: int, side: int, stride: tuple[int, int], scale: float, cfg: AgentConfig
    ) -> None:
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
    """[B, C, H, W] of bytes to 512 features. Bytes become floats here and nowhere earlier.

    `layers`: channels, side of the kernel and stride of each convolution; no stride: 2 while the picture is large.
    """

    out_features = FEATURES

    def __init__(self, shape: tuple[int, ...], layers: Layers, cfg: AgentConfig) -> None:
        super().__init__()
        channels, *sides = shape
        convolutions = []
        for i, (out, side, stride) in enumerate(layers):
            strides = [stride or (2 if n > HALVED else 1) for n in sides]
            convolutions.append(Convolution(channels, out, side, (strides[0], strides[1]), 1.0 if i else 1 / 255, cfg))
            sides, channels = [(n - side) // step + 1 for n, step in zip(sides, strides, strict=True)], out
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
    layers_of_pictures: ClassVar[Layers] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))

    def __init__(self, obs_space: dict[str, gym.Space], cfg: AgentConfig) -> None:
        if not any(is_picture(space) for space in obs_space.values()):
            shown = ", ".join(f"{key}: {space}" for key, space in obs_space.items())
            raise UserError(
                f"agent.encoder: {cfg.encoder} reads pictures (uint8, three axes); the observation has none ({shown}). "
                "Use agent.encoder=mlp."
            )
        super().__init__(obs_space, cfg)

    def leaf_encoder(self, key: str, space: gym.Space, cfg: AgentConfig) -> Any:
        if not is_picture(space):
            return super().leaf_encoder(key, space, cfg)
        _, *sides = space.shape or ()
        least = SMALLEST_PICTURE[cfg.encoder]
        if min(sides) < least:
            raise UserError(
                f"agent.encoder: {cfg.encoder} needs pictures of at least {least} x {least} pixels; observation "
                f"{key!r} has {sides[0]} x {sides[1]}. Use agent.encoder={encoder_for(min(sides))}."
            )
        return Pictures(space.shape or (), self.layers_of_pictures, cfg)


class SmallCNN(NatureCNN):
    """The same for pictures that are too small for its kernels: 8 x 8 becomes 6, 4 and 2 pixels a side."""

    layers_of_pictures = ((32, 3, None), (64, 3, None), (64, 3, None))
