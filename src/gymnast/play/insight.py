"""Why an agent acts as it does at one moment: what its action and its value depend on, what its layers make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from gymnast.agent.batch import OBS, VALUE, Batch
from gymnast.agent.bodies.cnn import Convolution
from gymnast.agent.bodies.mlp import ACTIVATIONS
from gymnast.agent.heads import GaussianHead
from gymnast.core.observations import is_board, is_picture

if TYPE_CHECKING:
    from gymnast.agent.agent import Agent
    from gymnast.agent.nets import Net

PATCHES = 12  # of a side that are covered, one after the other
MOST_TILES = 64  # filters or maps of a layer that are shown
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Situation:
    """What an agent sees and remembers, in one env."""

    obs: Mapping[str, NDArray[Any]]
    state: Mapping[str, NDArray[Any]]
    mask: NDArray[np.bool_] | None
    starts: bool

    def batch(self, net: Net, obs: Mapping[str, Tensor] | None = None, rows: int = 1) -> Batch:
        """`obs`: other observations instead, so many rows of them."""
        device = net.agent.device
        seen = obs or {key: torch.as_tensor(array)[None].to(device) for key, array in self.obs.items()}
        columns: dict[str, Any] = {OBS + key: leaf for key, leaf in seen.items()}
        columns["starts"] = torch.full((rows,), self.starts, device=device)
        if self.mask is not None:
            columns["mask"] = torch.as_tensor(self.mask, device=device)[None].expand(rows, -1)
        state = {
            key: torch.as_tensor(array, device=device)[None].repeat(rows, *[1] * np.ndim(array))
            for key, array in self.state.items()
        }
        return Batch(columns, state)


def gradient(net: Net, here: Situation) -> dict[str, dict[str, Floats]]:
    """By leaf: how much the log-probability of the most likely action (`action`) and the value (`value`) change with
    each number that is seen, as absolute slopes. Categories have none."""
    agent = net.agent
    leaves = {key: _float(array).to(agent.device)[None] for key, array in here.obs.items() if _has_slope(agent, key)}
    if not leaves:
        return {}
    for leaf in leaves.values():
        leaf.requires_grad_(True)
    rest = {key: torch.as_tensor(array)[None].to(agent.device) for key, array in here.obs.items() if key not in leaves}
    with torch.no_grad():
        best = agent.act(rest | leaves, _state(here, agent), torch.tensor([here.starts]), _mask(here, agent)).action
    found: dict[str, dict[str, Floats]] = {key: {} for key in leaves}
    for name in ("action", VALUE):
        for action in _points(agent, best) if name == "action" else [best]:
            with torch.enable_grad():
                out = agent.evaluate(here.batch(net, rest | leaves).with_columns(action=action))
                target = out.logp if name == "action" else out.values[VALUE]
                slopes = torch.autograd.grad(target.sum(), list(leaves.values()), allow_unused=True)
            for key, slope in zip(leaves, slopes, strict=True):
                flat = np.zeros(leaves[key].shape[1:]) if slope is None else slope[0].abs().double().cpu().numpy()
                found[key][name] = found[key].get(name, 0.0) + flat
    return found


def _points(agent: Agent, best: Tensor) -> list[Tensor]:
    """Actions whose log-probabilities show what a choice depends on. A Gaussian is flat at its mean, so each of its
    components is looked at one standard deviation (of 1, before scaling) away from it."""
    if not isinstance(agent.head, GaussianHead):
        return [best]
    return [best + step for step in torch.eye(best.shape[1], device=best.device)]


@torch.no_grad()
def occlusion(net: Net, here: Situation, key: str) -> dict[str, Floats]:
    """Of a picture, by patch: how far the policy (`action`: total variation, or standard deviations of the mean) and
    the value (`value`) move when the patch is covered by the mean of its neighbourhood."""
    agent, seen = net.agent, np.asarray(here.obs[key])
    axes = picture_axes(agent.obs_space[key])
    height, width = (seen.shape[axis] for axis in axes)
    tall, wide = max(1, -(-height // PATCHES)), max(1, -(-width // PATCHES))
    corners = [(y, x) for y in range(0, height, tall) for x in range(0, width, wide)]
    rows = np.repeat(seen[None], len(corners), 0)
    for row, (y, x) in zip(rows, corners, strict=True):
        around = [slice(None)] * seen.ndim
        patch = [slice(None)] * seen.ndim
        around[axes[0]], around[axes[1]] = slice(max(0, y - tall), y + 2 * tall), slice(max(0, x - wide), x + 2 * wide)
        patch[axes[0]], patch[axes[1]] = slice(y, y + tall), slice(x, x + wide)
        row[tuple(patch)] = np.rint(seen[tuple(around)].mean(axis=axes, keepdims=True)).astype(seen.dtype)
    obs = {
        name: torch.as_tensor(array).to(agent.device)[None].expand(len(corners), *np.shape(array))
        for name, array in here.obs.items()
    }
    covered = agent.describe(here.batch(net, obs | {key: torch.as_tensor(rows).to(agent.device)}, len(corners)))
    plain = agent.describe(here.batch(net))
    if "probability" in plain:
        moved = (covered["probability"] - plain["probability"]).abs().sum(1) / 2
    else:
        moved = ((covered["mean"] - plain["mean"]) / plain["std"].clamp_min(1e-6)).abs().sum(1)
    shape = len(range(0, height, tall)), len(range(0, width, wide))
    changes = {"action": moved, VALUE: (covered[VALUE] - plain[VALUE]).abs()}
    return {name: change.double().cpu().numpy().reshape(shape) for name, change in changes.items()}


@torch.no_grad()
def activations(net: Net, here: Situation) -> list[tuple[str, Floats]]:
    """Of each convolution of the actor: its name and its maps [filters, height, width] after the non-linearity."""
    found: list[tuple[str, Floats]] = []
    hooks = []

    def keep(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, out: Tensor) -> None:
            found.append((name, F.relu(out[0]).double().cpu().numpy()))

        return hook

    try:
        for name, module in convolutions(net):
            hooks.append(module.register_forward_hook(keep(name)))
        net.agent.actor_body(_inputs(net, here))
    finally:
        for handle in hooks:
            handle.remove()
    return found


@torch.no_grad()
def units(net: Net, here: Situation) -> list[tuple[str, Floats]]:
    """Of each dense layer of the actor: its name and its units after the non-linearity."""
    found: list[tuple[str, Floats]] = []
    kinds = tuple(ACTIVATIONS.values())
    named = [(name, module) for name, module in net.agent.actor_body.named_modules() if isinstance(module, kinds)]

    def keep(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, out: Tensor) -> None:
            if out.dim() == 2:
                found.append((name, out[0].double().cpu().numpy()))

        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in named]
    try:
        net.agent.actor_body(_inputs(net, here))
    finally:
        for handle in hooks:
            handle.remove()
    return found


def filters(net: Net) -> list[tuple[str, Floats]]:
    """Of each convolution of the actor: its kernels [filters, channels, height, width]."""
    return [
        (name, layer.weight.detach().permute(0, 3, 1, 2).double().cpu().numpy()) for name, layer in convolutions(net)
    ]


def convolutions(net: Net) -> list[tuple[str, Convolution]]:
    return [(name, module) for name, module in net.agent.actor_body.named_modules() if isinstance(module, Convolution)]


def picture_axes(space: Any) -> tuple[int, int]:
    """Which axes of a leaf are height and width; pictures have their channels first, boards last."""
    return (0, 1) if is_board(space) else (1, 2)


def pictures_of(net: Net) -> list[str]:
    """The leaves that are pictures or boards."""
    return [key for key, space in net.agent.obs_space.items() if is_picture(space) or is_board(space)]


def _inputs(net: Net, here: Situation) -> dict[str, Tensor]:
    return net.agent.inputs({key: torch.as_tensor(array)[None].to(net.agent.device) for key, array in here.obs.items()})


def _has_slope(agent: Agent, key: str) -> bool:
    """Not where a tracker reads it: which pixels belong to an object is a choice, and choices have no slopes."""
    space = agent.obs_space[key]
    is_number = is_picture(space) or is_board(space) or np.dtype(space.dtype).kind == "f"
    return is_number and agent.tracker is None


def _float(array: NDArray[Any]) -> Tensor:
    return torch.as_tensor(np.asarray(array, np.float32).copy())


def _state(here: Situation, agent: Agent) -> dict[str, Tensor]:
    return {key: torch.as_tensor(array, device=agent.device)[None] for key, array in here.state.items()}


def _mask(here: Situation, agent: Agent) -> Tensor | None:
    return None if here.mask is None else torch.as_tensor(here.mask, device=agent.device)[None]
