"""From observations to features. An encoder takes a dict of leaves and returns [B, out_features]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gymnast.agent.bodies.norms import norm_layers
from gymnast.core.errors import UserError

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "leaky_relu": nn.LeakyReLU,
}


class OneHot(nn.Module):
    """Categories, one or several, as concatenated one-hot vectors."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self.out_features = sum(sizes)

    def forward(self, x: Tensor) -> Tensor:
        columns = x.reshape(x.shape[0], len(self.sizes)).long()
        return torch.cat([F.one_hot(columns[:, i], n) for i, n in enumerate(self.sizes)], 1).float()


class Embedding(nn.Module):
    """Categories as learned vectors, a table for each."""

    def __init__(self, sizes: list[int], dim: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in sizes)
        self.out_features = dim * len(sizes)

    def forward(self, x: Tensor) -> Tensor:
        columns = x.reshape(x.shape[0], len(self.tables)).long()
        return torch.cat([table(columns[:, i]) for i, table in enumerate(self.tables)], 1)


class Flat(nn.Module):
    """Numbers as they are, in one row; bytes scaled to 0..1."""

    def __init__(self, space: gym.Space) -> None:
        super().__init__()
        self.scale = 1 / 255 if space.dtype == np.uint8 else 1.0
        self.out_features = math.prod(space.shape or ())

    def forward(self, x: Tensor) -> Tensor:
        row = x.reshape(x.shape[0], -1)
        return row if row.dtype == torch.float32 and self.scale == 1.0 else row.float() * self.scale


def orthogonal(layer: nn.Linear, gain: float, cfg: AgentConfig) -> nn.Linear:
    """Orthogonal weights of that gain and zero bias, unless the config keeps torch's own start."""
    if cfg.ortho_init:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return layer


def dense_layers(width: int, cfg: AgentConfig) -> tuple[nn.Sequential, int]:
    """The hidden layers of the config on inputs of that width, and the width of what comes out."""
    layers: list[nn.Module] = []
    for size in cfg.hidden:
        layers.append(orthogonal(nn.Linear(width, size), math.sqrt(2), cfg))
        layers += [*norm_layers(size, cfg), ACTIVATIONS[cfg.activation]()]
        width = size
    return nn.Sequential(*layers), width


class MLPEncoder(nn.Module):
    """All leaves in one row, then hidden layers."""

    def __init__(self, obs_space: dict[str, gym.Space], cfg: AgentConfig) -> None:
        super().__init__()
        self.keys = list(obs_space)
        leaves = [self.leaf_encoder(key, space, cfg) for key, space in obs_space.items()]
        self.leaves = nn.ModuleList(leaves)
        self.layers, self.out_features = dense_layers(sum(leaf.out_features for leaf in leaves), cfg)

    def leaf_encoder(self, key: str, space: gym.Space, cfg: AgentConfig) -> Any:
        """How one leaf of the observation becomes numbers."""
        if isinstance(space, gym.spaces.Box | gym.spaces.MultiBinary):
            return Flat(space)
        if isinstance(space, gym.spaces.Discrete):
            sizes = [int(space.n)]
        elif isinstance(space, gym.spaces.MultiDiscrete):
            sizes = [int(n) for n in space.nvec.flatten()]
        else:
            raise UserError(f"observation {key!r}: {space} has no encoder. Add the wrapper `flatten` to env.wrappers.")
        return Embedding(sizes, cfg.embedding_dim) if cfg.discrete_encoding == "embedding" else OneHot(sizes)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        rows = [leaf(obs[key]) for key, leaf in zip(self.keys, self.leaves, strict=True)]
        return self.layers(rows[0] if len(rows) == 1 else torch.cat(rows, 1))
