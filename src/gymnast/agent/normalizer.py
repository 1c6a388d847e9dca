"""Running statistics of observations and rewards. They are buffers of the agent: saved with it, frozen when it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, cast

import gymnasium as gym
import torch
from torch import Tensor, nn

from gymnast.core.observations import is_normalizable
from gymnast.core.tasks import TASK

STATISTICS = ("mean", "var", "count")


class RunningMoments(nn.Module):
    """Mean and variance of all that was ever seen, merged batch by batch (Chan's parallel formula), in float64.

    The statistics stay on the CPU, where rollouts are (and some accelerators have no float64); `shift` and `scale`,
    the float32 copies that normalising needs, move with the network.
    """

    mean: Tensor
    var: Tensor
    count: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(shape), persistent=False)
        self.register_buffer("scale", torch.ones(shape), persistent=False)
        self.register_load_state_dict_post_hook(lambda module, _: cast(RunningMoments, module)._refresh())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """`module.to(...)` for all but the statistics."""
        statistics = {name: self._buffers.pop(name) for name in STATISTICS}
        super()._apply(fn, recurse)
        self._buffers = statistics | self._buffers
        return self

    def _refresh(self) -> None:
        self.shift.copy_(self.mean)
        self.scale.copy_((self.var + 1e-8).rsqrt())

    def update(self, batch: Tensor) -> None:
        """Takes in a batch of samples along the first axis."""
        batch = batch.to("cpu", torch.float64)
        n = batch.shape[0]
        total = self.count + n
        delta = batch.mean(0) - self.mean
        squares = self.var * self.count + batch.var(0, unbiased=False) * n + delta.square() * self.count * n / total
        self.mean.add_(delta * n / total)
        self.var.copy_(squares / total)
        self.count.copy_(total)
        self._refresh()


class ObsNormalizer(nn.Module):
    """Shifts and scales leaves of numbers to zero mean and unit variance.

    Statistics move only in `update`, which training calls between rollouts: while a rollout is collected and learned
    from they stand still, so the probabilities of acting and of learning are the same.
    """

    def __init__(
        self, obs_space: dict[str, gym.Space[Any]], clip: float, owners: Mapping[str, int] | None = None
    ) -> None:
        """`owners`: leaves that mean something in the rows of one task only, and which one that is."""
        super().__init__()
        self.clip, self.owners = clip, dict(owners or {})
        shapes = {key: space.shape or () for key, space in obs_space.items() if is_normalizable(space)}
        self.keys = list(shapes)
        # A list, not a dict: a leaf's name may hold dots, a module's may not.
        self.moments = nn.ModuleList(RunningMoments(shape) for shape in shapes.values())

    def _leaves(self) -> Iterator[tuple[str, RunningMoments]]:
        for key, moments in zip(self.keys, self.moments, strict=True):
            yield key, cast(RunningMoments, moments)

    def update(self, obs: dict[str, Tensor]) -> None:
        for key, moments in self._leaves():
            moments.update(obs[key][obs[TASK] == self.owners[key]] if key in self.owners else obs[key])

    def forward(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        scaled = dict(obs)
        for key, moments in self._leaves():
            scaled[key] = ((obs[key] - moments.shift) * moments.scale).clamp_(-self.clip, self.clip)
        return scaled


class RewardNormalizer(nn.Module):
    """Divides rewards by the running standard deviation of the discounted return, so that values are of order one."""

    def __init__(self, gamma: float, clip: float) -> None:
        super().__init__()
        self.gamma, self.clip = gamma, clip
        self.moments = RunningMoments(())

    def update_and_scale(self, reward: Tensor, ended: Tensor, carry: Tensor) -> Tensor:
        """Takes in a rollout's rewards [T, N] and returns them scaled, one scale for the whole rollout.

        `carry` [N] is the discounted return so far of each env's episode; it is advanced in place.
        """
        discounted = torch.empty_like(reward, dtype=torch.float64)
        for t in range(reward.shape[0]):
            carry.mul_(self.gamma).add_(reward[t])
            discounted[t] = carry
            carry.mul_(~ended[t])
        self.moments.update(discounted.flatten())
        return (reward * self.scale).clamp_(-self.clip, self.clip)

    @property
    def scale(self) -> Tensor:
        """What a reward is multiplied by, on the CPU."""
        return self.moments.scale.cpu()
