"""Where objects are in pictures, how they move, and how far they are from each other.

Pictures are compared with their background. A small network looks at each pixel that differs from it, with its
neighbourhood and its place, and says to which of a few objects it belongs. How it learns that, without labels and
without rewards, is in `fit.py`. After the first rollout it stands still, and the layers behind it learn from numbers
that always mean the same.

A network that learns from rewards alone needs millions of steps to see a ball of two pixels, and learns single pictures
by heart in the meantime (docs/log.md). This works where a few objects move in front of a background that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Self, cast

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gymnast.agent.tracker import kernels
from gymnast.core.errors import UserError
from gymnast.core.observations import CONTRAST, is_picture, mark_columns, mark_rows
from gymnast.core.pulse import Pulse

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

UNITS = 32  # of the network's hidden layer
LEAST_SHARE = 0.2  # of the mass that an object usually has, with which it counts as seen
WHOLE, NEAR = 0.97, 1  # an object with a smaller share, as near as that to the edge (in pixels), is cut by it

# Units of what the layers behind get: with them, what matters is neither small nor large. Shares of the picture's
# height or width.
PLACE, MOVE, APART = 1 / 6, 1 / 24, 1 / 16
FARTHEST = 2.5  # of the last unit: larger distances between objects are cut, so that small ones stand out

MOST_KEPT = 6000  # stacks of pictures until it learns; of more than that half are dropped


class Tracker(nn.Module):
    """Grey pictures [B, C, H, W] of bytes, the latest last, to [B, out_features]. Nothing is seen before `learn`.

    For each object in the latest picture: its row, its column, and whether it is seen. For each picture before that: by
    how much each object has moved since. For each pair of objects: the rows and columns between them. Where marks at
    the pictures' edge show actions, these are read as such: for each picture and each action a 1 or a 0.
    """

    background: Tensor
    hidden: Tensor
    hidden_bias: Tensor
    out: Tensor
    out_bias: Tensor
    mass: Tensor
    size: Tensor
    has_learned: Tensor

    def __init__(self, shape: tuple[int, ...], objects: int, shown_actions: Sequence[str] = ()) -> None:
        super().__init__()
        pictures, height, width = shape
        self.shape, self.objects, self.shown_actions = (pictures, height, width), objects, tuple(shown_actions)
        self.out_features = objects * (3 + 2 * (pictures - 1) + objects - 1) + pictures * len(shown_actions)
        self.register_buffer("background", torch.zeros(height, width, dtype=torch.uint8))
        self.register_buffer("hidden", torch.zeros(kernels.AROUND + height + width, UNITS))
        self.register_buffer("hidden_bias", torch.zeros(UNITS))
        self.register_buffer("out", torch.zeros(UNITS, objects))
        self.register_buffer("out_bias", torch.zeros(objects))
        self.register_buffer("mass", torch.zeros(objects))  # of each object where all of it is seen
        self.register_buffer("size", torch.ones(objects, 2))  # its height and width in pixels
        self.register_buffer("has_learned", torch.tensor(False))
        self._kept: list[Bytes] = []  # stacks to learn from: this share of all, drawn at random
        self._kept_share, self._rng = 1.0, np.random.default_rng(0)
        self._last: tuple[Bytes, Floats] | None = None  # pictures, all but the first of a stack, and what is in them
        self.register_load_state_dict_post_hook(lambda module, _: cast(Tracker, module)._forget())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """`module.to(...)` moves nothing: pictures are looked at where rollouts are, on the CPU."""
        return self

    @classmethod
    def of(cls, obs_space: dict[str, gym.Space[Any]], objects: int, shown_actions: Sequence[str]) -> Tracker:
        """Of the only picture of an observation."""
        space, *others = obs_space.values()
        if others or not is_picture(space):
            shown = ", ".join(f"{key}: {space}" for key, space in obs_space.items())
            raise UserError(
                f"agent.track: {objects} objects are found in grey pictures (uint8, three axes), and the observation "
                f"is something else ({shown}). Set agent.track=null."
            )
        return cls(space.shape or (), objects, shown_actions)

    @property
    def space(self) -> gym.spaces.Box:
        """Of what the layers behind it get."""
        return gym.spaces.Box(-np.inf, np.inf, (self.out_features,), np.float32)

    @property
    def names(self) -> list[str]:
        """Of these numbers."""
        objects, axes = range(1, self.objects + 1), ("row", "column")
        names = [f"object {n} {axis}" for n in objects for axis in axes] + [f"object {n} seen" for n in objects]
        for ago in range(self.shape[0] - 2, -1, -1):
            when = f", {ago} before" if ago else ""
            names += [f"object {n} {axis} change{when}" for n in objects for axis in axes]
        pairs = combinations(objects, 2)
        names += [f"object {one} - object {other} {axis}" for one, other in pairs for axis in axes]
        for ago in range(self.shape[0] - 1, -1, -1):
            names += [f"last {action}" + (f", {ago} before" if ago else "") for action in self.shown_actions]
        return names

    def forward(self, pictures: Tensor) -> Tensor:
        """What was found in pictures already is passed on."""
        if pictures.dim() == 2:
            return pictures
        return torch.from_numpy(self.see(pictures.detach().cpu().to(torch.uint8).numpy())).to(pictures.device)

    def watch(self, pictures: Bytes) -> Floats:
        """`see`, and as long as nothing has been learned some of the pictures are kept for `learn_kept`."""
        if not self.has_learned:
            drawn = self._rng.random(len(pictures)) < self._kept_share
            self._kept += [stack.copy() for stack in pictures[drawn]]
            if len(self._kept) > MOST_KEPT:
                self._kept = [stack for stack in self._kept if self._rng.random() < 0.5]
                self._kept_share /= 2
        return self.see(pictures)

    def see(self, pictures: Bytes) -> Floats:
        """[B, C, H, W] to [B, out_features]."""
        count, times, height, width = pictures.shape
        if not self.has_learned:
            return np.zeros((count, self.out_features), np.float32)
        found = self._find_in_stacks(pictures)
        seen = (found[..., 0] > 0) & (found[..., 0] >= LEAST_SHARE * self.mass.numpy())
        places = np.where(seen[..., None], self._centres(found) / (height, width), 0.5)  # not seen: in the middle
        parts = [(places[:, -1] - 0.5) / PLACE, seen[:, -1]]
        for before in range(times - 1):
            both = (seen[:, before] & seen[:, before + 1])[..., None]
            parts.append(np.where(both, places[:, before + 1] - places[:, before], 0) / MOVE)
        one, other = np.triu_indices(self.objects, 1)
        both = (seen[:, -1, one] & seen[:, -1, other])[..., None]
        apart = np.where(both, places[:, -1, one] - places[:, -1, other], 0)
        parts.append(np.clip(apart / APART, -FARTHEST, FARTHEST))
        if self.shown_actions:
            parts.append(self._marks(pictures))
        return np.concatenate([part.reshape(count, -1) for part in parts], 1, dtype=np.float32)

    def _centres(self, found: Floats) -> Floats:
        """Rows and columns [..., 2] of whole objects: of those that the edge cuts, only a part was found."""
        share = np.minimum(found[..., :1] / np.maximum(self.mass.numpy()[:, None], 1e-6), 1)
        centres, half = found[..., 1:], self.size.numpy() / 2
        before, behind = centres + 0.5, self._scenery.shape - (centres + 0.5)  # to either edge
        gap = np.minimum(before, behind) - share * half  # between what is seen of it and the edge
        cut = (share < WHOLE) & (gap < NEAR) & (gap == gap.min(-1, keepdims=True))
        return np.where(cut, centres + np.where(before < behind, -1, 1) * (1 - share) * half, centres)

    def _marks(self, stacks: Bytes) -> NDArray[np.bool_]:
        """Which actions they show, [B, C, actions]: most of an action's place differs from the background as a mark
        does."""
        _, height, width = self.shape
        edge = mark_columns(width)
        different = np.abs(stacks[..., edge] - self.background.numpy()[:, edge].astype(np.int16))
        marked = np.abs(different - CONTRAST) <= kernels.DIFFERENT
        rows = mark_rows(height, len(self.shown_actions))
        return np.stack([marked[..., some, :].mean((2, 3)) > 0.5 for some in rows], 2)

    def _clear_background(self, pictures: Bytes) -> None:
        """The median of pictures [N, H, W] has the mark of an action that was chosen in more than half of them. Of the
        two states of its place, the one that is more like the pixels next to it is without the mark."""
        _, height, width = self.shape
        edge, marks = mark_columns(width), self._marks(pictures[:, None])[:, 0]
        background = self.background.numpy()
        for differs, rows in zip(marks.T, mark_rows(height, len(self.shown_actions)), strict=True):
            if not differs.any():
                continue
            beside = background[rows, edge.start - 1 : edge.start].astype(np.int16)
            state, other = background[rows, edge], np.median(pictures[differs, rows, edge], axis=0)
            if np.abs(other - beside).sum() < np.abs(state - beside).sum():
                background[rows, edge] = other

    @property
    def _scenery(self) -> Bytes:
        """The background of objects: not of marks."""
        end = mark_columns(self.shape[2]).start if self.shown_actions else self.shape[2]
        return np.ascontiguousarray(self.background.numpy()[:, :end])

    def _find_in_stacks(self, stacks: Bytes) -> Floats:
        """[B, C, H, W] to [B, C, objects, 3]. Where a stack is the last call's and one picture more, only that one
        is looked at."""
        known = np.zeros(stacks.shape[:2], np.bool_)
        found = np.empty((*stacks.shape[:2], self.objects, 3), np.float32)
        last = self._last  # read once: another thread may use this agent
        if last is not None and len(last[0]) == len(stacks):
            before, found[:, :-1] = last
            known[:, :-1] = kernels.equal_pictures(stacks[:, :-1], before)
        found[~known] = self.find(stacks[~known])
        self._last = stacks[:, 1:].copy(), found[:, 1:]
        return found

    def find(self, pictures: Bytes) -> Floats:
        """Mass, row and column of each object in each picture [N, H, W]: [N, objects, 3]."""
        weights = (weight.numpy() for weight in self.weights.values())
        return kernels.objects_of(np.ascontiguousarray(pictures), self._scenery, *weights)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Of the network, in the order in which kernels take them."""
        return {name: getattr(self, name) for name in ("hidden", "hidden_bias", "out", "out_bias")}

    def learn_kept(self, seed: int, pulse: Pulse | None = None) -> tuple[Tensor, dict[str, float]]:
        """`learn` from what was watched. Returns the numbers that these pictures give now, and metrics of the fit."""
        kept = np.stack(self._kept)
        metrics = self.learn(torch.from_numpy(kept), seed, pulse)
        return torch.from_numpy(self.see(kept)), metrics

    def learn(self, pictures: Tensor, seed: int, pulse: Pulse | None = None) -> dict[str, float]:
        """Which objects move in stacks of pictures [B, C, H, W]. `pulse` says how far it is; the metrics, how well they
        were found."""
        from gymnast.agent.tracker import fit  # its optimizer's package knows agents, which have trackers

        generator = torch.Generator().manual_seed(seed)
        latest = pictures[torch.randperm(len(pictures), generator=generator)[: fit.MOST_PICTURES], -1].contiguous()
        self.background.copy_(latest.median(0).values)
        if self.shown_actions:
            self._clear_background(latest.numpy())
        moving = fit.Moving.of(latest.numpy(), self._scenery)
        for name, weight in fit.find_objects(moving, self.weights, generator, pulse or Pulse()).items():
            getattr(self, name).copy_(weight)
        for mine, usual in zip((self.mass, self.size), fit.usual(moving, self.weights), strict=True):
            mine.copy_(usual)
        self.has_learned.fill_(True)
        self._forget()
        found = fit.how_well(moving, self.weights).items()
        return {f"objects/{name}/{n}": float(one) for name, by in found for n, one in enumerate(by.tolist(), start=1)}

    def _forget(self) -> None:
        """What another network has found, and pictures that are not needed any more."""
        self._last = None
        if self.has_learned:
            self._kept = []
