"""Convolutional networks for pictures and boards: DQN's (Mnih et al., Nature 2015), a small one, a residual one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gymnast.agent.bodies.mlp import MLPEncoder, orthogonal
from gymnast.agent.bodies.norms import PictureNorm, norm_layers
from gymnast.agent.bodies.parallel import in_parts
from gymnast.config.schema import SMALLEST_PICTURE, encoder_for
from gymnast.core.errors import UserError
from gymnast.core.observations import is_board, is_picture

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

HALVED = 12  # pixels a side, above which a small network's convolution takes every other one
Layers = tuple[tuple[int, int, int | None], ...]


class Convolution(nn.Module):
    """A convolution whose weight lies in memory as channels-last arithmetic wants it: [out, height, width, in].

    A `nn.Conv2d` in that layout has parameters with strides of their own, and so would everything made of them:
    gradients, moments, checkpoints. This one's parameters are plain arrays. `scale` is that of its input, unless a
    `norm` measures it.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        side: int,
        stride: tuple[int, int],
        scale: float,
        cfg: AgentConfig,
        padding: tuple[int, int] = (0, 0),
        norm: PictureNorm | None = None,
    ) -> None:
        super().__init__()
        self.stride, self.scale, self.padding, self.norm = stride, scale, padding, norm
        self.weight = nn.Parameter(torch.empty(out, side, side, channels))
        self.bias = nn.Parameter(torch.zeros(out))
        if cfg.ortho_init:
            nn.init.orthogonal_(self.weight, math.sqrt(2))
        else:  # as torch starts its own
            nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
            bound = 1 / math.sqrt(side * side * channels)
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight
        if self.norm is not None:
            x, weight = self.norm(x), weight * self.norm.scale
        elif self.scale != 1.0:
            weight = weight * self.scale  # thousands of numbers, not millions
        return F.conv2d(x, weight.permute(0, 3, 1, 2), self.bias, self.stride, self.padding)


class Convolutional(nn.Module):
    """[B, C, H, W] to `out_features`. Bytes become floats here and nowhere earlier."""

    linear: nn.Linear

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        return in_parts(self.features, list(self.parameters()), x)

    def features(self, x: Tensor) -> Tensor:
        x = self.convolved(x.to(torch.float32, memory_format=torch.channels_last))
        return F.relu(self.linear(x.permute(0, 2, 3, 1).flatten(1)))  # in the order it lies in: nothing is moved

    def convolved(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Pictures(Convolutional):
    """Plain convolutions, one after another.

    `layers`: channels, side of the kernel and stride of each; no stride: 2 while the picture is large. `padded`: with
    zeros around it, where kernels would otherwise end before the last pixels and never see them.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        layers: Layers,
        out_features: int,
        cfg: AgentConfig,
        scale: float = 1 / 255,
        padded: bool = False,
    ) -> None:
        super().__init__(out_features)
        channels, *sides = shape
        convolutions, norms = [], []
        for i, (out, side, stride) in enumerate(layers):
            strides = [stride or (2 if n > HALVED else 1) for n in sides]
            norm = None if i or scale == 1.0 else PictureNorm.of(shape, cfg)
            missing = [(side - n) % step if padded else 0 for n, step in zip(sides, strides, strict=True)]
            padding = (-(-missing[0] // 2), -(-missing[1] // 2))
            its_scale = 1.0 if i else scale
            convolutions.append(
                Convolution(channels, out, side, (strides[0], strides[1]), its_scale, cfg, padding, norm)
            )
            sides = [n + 2 * more for n, more in zip(sides, padding, strict=True)]
            norms.append(nn.Sequential(*norm_layers(out, cfg, pictures=True)))
            sides, channels = [(n - side) // step + 1 for n, step in zip(sides, strides, strict=True)], out
        self.convolutions, self.norms = nn.ModuleList(convolutions), nn.ModuleList(norms)
        self.linear = orthogonal(nn.Linear(sides[0] * sides[1] * channels, out_features), math.sqrt(2), cfg)

    def convolved(self, x: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.relu(norm(convolution(x)))
        return x


class Boards(Pictures):
    """[B, rows, columns, kinds] of bits: as channels-last memory has pictures."""

    def features(self, x: Tensor) -> Tensor:
        return super().features(x.permute(0, 3, 1, 2))


class Residual(nn.Module):
    """x and what two convolutions make of it."""

    def __init__(self, channels: int, cfg: AgentConfig) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            Convolution(channels, channels, 3, (1, 1), 1.0, cfg, padding=(1, 1)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.Sequential(*norm_layers(channels, cfg, pictures=True)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            y = norm(convolution(F.relu(y)))
        return x + y


class ResidualPictures(Convolutional):
    """The deep network of IMPALA (Espeholt et al., 2018): three times a convolution, every other pixel of it, and two
    residual blocks."""

    def __init__(self, shape: tuple[int, ...], out_features: int, cfg: AgentConfig) -> None:
        super().__init__(out_features)
        channels, *sides = shape
        sections = []
        for i, out in enumerate((16, 32, 32)):
            norm = None if i else PictureNorm.of(shape, cfg)
            first = Convolution(channels, out, 3, (1, 1), 1.0 if i else 1 / 255, cfg, padding=(1, 1), norm=norm)
            sections.append(nn.Sequential(first, nn.MaxPool2d(3, 2, padding=1), Residual(out, cfg), Residual(out, cfg)))
            sides, channels = [-(-n // 2) for n in sides], out
        self.sections = nn.Sequential(*sections)
        self.linear = orthogonal(nn.Linear(sides[0] * sides[1] * channels, out_features), math.sqrt(2), cfg)

    def convolved(self, x: Tensor) -> Tensor:
        return F.relu(self.sections(x))


class NatureCNN(MLPEncoder):
    """Every picture through its own convolutions; other leaves next to their features; then `agent.hidden`, if any."""

    is_large = True  # worth several threads

    def __init__(self, obs_space: dict[str, gym.Space], cfg: AgentConfig) -> None:
        if not any(self.reads(space) for space in obs_space.values()):
            shown = ", ".join(f"{key}: {space}" for key, space in obs_space.items())
            raise UserError(
                f"agent.encoder: {cfg.encoder} reads {self.wanted}; the observation has none ({shown}). "
                "Use agent.encoder=mlp."
            )
        super().__init__(obs_space, cfg)

    wanted: ClassVar[str] = "pictures (uint8, three axes)"

    def reads(self, space: gym.Space) -> bool:
        return is_picture(space)

    def convolutional(self, shape: tuple[int, ...], cfg: AgentConfig) -> Convolutional:
        """The network of one picture."""
        return Pictures(shape, ((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512, cfg)

    def leaf_encoder(self, key: str, space: gym.Space, cfg: AgentConfig) -> Any:
        if not self.reads(space):
            return super().leaf_encoder(key, space, cfg)
        sides, least = self.sides(space), SMALLEST_PICTURE[cfg.encoder]
        if min(sides) < least:
            raise UserError(
                f"agent.encoder: {cfg.encoder} needs pictures of at least {least} x {least} pixels; observation "
                f"{key!r} has {sides[0]} x {sides[1]}. Use agent.encoder={encoder_for(min(sides))}."
            )
        return self.convolutional(space.shape or (), cfg)

    def sides(self, space: gym.Space) -> tuple[int, ...]:
        return (space.shape or ())[1:]


class SmallCNN(NatureCNN):
    """For a CPU: the first network of DQN (Mnih et al., 2013). Pictures too small for its kernels get smaller ones.

    Without padding it would not see the last 6 of 42 pixels, where Pong's own paddle is.
    """

    def convolutional(self, shape: tuple[int, ...], cfg: AgentConfig) -> Convolutional:
        if min(shape[1:]) >= SMALLEST_PICTURE["nature_cnn"]:
            return Pictures(shape, ((16, 8, 4), (32, 4, 2)), 256, cfg, padded=True)
        layers = (32, 3, None), (64, 3, None), (64, 3, None)  # 8 x 8 becomes 6, 4 and 2
        return Pictures(shape, layers, 512, cfg, padded=True)


class ImpalaCNN(NatureCNN):
    """Residual: more arithmetic, and in many games the better score for a number of steps."""

    def convolutional(self, shape: tuple[int, ...], cfg: AgentConfig) -> Convolutional:
        return ResidualPictures(shape, 256, cfg)


class BoardCNN(NatureCNN):
    """For boards of bits, as MinAtar's 10 x 10 (Young and Tian, 2019): 16 filters of 3 x 3, then 128 units."""

    wanted = "boards (bits, three axes: rows, columns, kinds)"

    def reads(self, space: gym.Space) -> bool:
        return is_board(space)

    def convolutional(self, shape: tuple[int, ...], cfg: AgentConfig) -> Convolutional:
        rows, columns, kinds = shape
        return Boards((kinds, rows, columns), ((16, 3, 1),), 128, cfg, scale=1.0)

    def sides(self, space: gym.Space) -> tuple[int, ...]:
        return (space.shape or ())[:2]
