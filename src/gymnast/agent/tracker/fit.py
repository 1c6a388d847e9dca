"""How a tracker learns which pixels belong together: objects are to be compact.

The loss is the mean squared distance of pixels from the centre of their object, in the picture that they are in. It
needs no labels: a network that takes two things for one object, or one thing for two, has pixels far from a centre as
soon as the two move apart. Some starts from random weights end in such a mistake. So there are several, and the one
with the most compact objects is kept. It then learns from the logarithm of these squares, in which the pixels of two
objects that touch count, too: a ball is to be seen at the paddle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gymnast.agent.nets.optimizer import Adam
from gymnast.agent.tracker import kernels
from gymnast.core.pulse import Pulse

STARTS = 8  # about every fourth one ends in a mistake
STEPS, RATE = 800, 0.03  # of a start: gradient steps, and the first rate, which falls to 0
LAST_STEPS, LAST_RATE = 150, 0.01  # the same of learning from logarithms
FEW_PICTURES = 32  # a gradient step
# At first pixels are rewarded for belonging to several objects: the weight of that entropy, a share of the picture's
# pixels, falls to 0 in this share of the steps. Decisions that are made too soon are rarely undone.
OPEN, OPEN_UNTIL = 1 / 64, 0.6
MOST_PICTURES, MOST_PIXELS = 4096, 200_000  # of a rollout that are learned from

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Moving:
    """Pixels that differ from the background, picture by picture."""

    pictures: int
    height: int  # of a picture, and its width
    width: int
    picture: Tensor  # which one each pixel is in
    place: Tensor  # row and column
    inputs: Tensor  # of the network
    mass: Tensor

    @classmethod
    def of(cls, pictures: NDArray[np.uint8], background: NDArray[Any]) -> Moving:
        picture, place, inputs = map(torch.from_numpy, kernels.moving_pixels(pictures, background, MOST_PIXELS))
        seen = int(picture[-1]) + 1 if len(picture) else 0
        height, width = background.shape
        return cls(seen, height, width, picture, place, inputs, inputs[:, kernels.MIDDLE].abs())

    def some(self, step: int) -> Moving:
        """Those of the next few pictures, from the start again when all had their turn."""
        first = step * FEW_PICTURES % max(1, self.pictures - FEW_PICTURES + 1)
        begin, end = torch.searchsorted(self.picture, torch.tensor([first, first + FEW_PICTURES])).tolist()
        own = slice(begin, end)
        sizes = FEW_PICTURES, self.height, self.width
        return Moving(*sizes, self.picture[own] - first, self.place[own], self.inputs[own], self.mass[own])


def find_objects(moving: Moving, like: Weights, generator: torch.Generator, pulse: Pulse) -> Weights:
    """Weights of these shapes that know the objects."""
    pulse.begin("finding objects", STARTS)
    found = []
    for pulse.done in range(STARTS):
        first = {}
        for layer in ("hidden", "out"):
            bound = 1 / math.sqrt(len(like[layer]))
            for name in (layer, f"{layer}_bias"):
                first[name] = torch.empty_like(like[name]).uniform_(-bound, bound, generator=generator)
        found.append(train(moving, first, STEPS, RATE, OPEN * moving.height * moving.width))
    best = min(found, key=lambda weights: float(size(moving, weights)))
    return train(moving, best, LAST_STEPS, LAST_RATE, measure=torch.log1p)


def train(
    moving: Moving,
    first: Mapping[str, Tensor],
    steps: int,
    rate: float,
    openness: float = 0.0,
    measure: Callable[[Tensor], Tensor] = torch.clone,
) -> Weights:
    """A new set of weights. `measure`: what the loss takes of squared distances."""
    weights = {name: weight.clone().requires_grad_() for name, weight in first.items()}
    adam = Adam(weights, eps=1e-8)
    for step in range(steps):
        still_open = openness * max(0.0, 1 - step / (OPEN_UNTIL * steps))
        with torch.enable_grad():
            loss = size(moving.some(step), weights, still_open, measure)
        for weight, slope in zip(weights.values(), torch.autograd.grad(loss, list(weights.values())), strict=True):
            weight.grad = slope
        adam.step(rate * (1 - step / steps))
    return {name: weight.detach() for name, weight in weights.items()}


def belongs(moving: Moving, weights: Mapping[str, Tensor]) -> Tensor:
    """How likely each pixel belongs to each object, as logits."""
    hidden = F.relu(moving.inputs @ weights["hidden"] + weights["hidden_bias"])
    return hidden @ weights["out"] + weights["out_bias"]


def usual(moving: Moving, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The mass of each object where all of it is seen, and its height and width in pixels, as a rectangle has them."""
    objects = len(weights["out_bias"])
    which = moving.picture * objects + belongs(moving, weights).argmax(1)
    weighed = moving.mass[:, None] * torch.cat((torch.ones(len(which), 1), moving.place, moving.place.square()), 1)
    totals = weighed.new_zeros(max(1, moving.pictures) * objects, 5).index_add(0, which, weighed)
    mass, *sums = totals.unflatten(0, (-1, objects)).split((1, 2, 2), 2)
    most = mass.quantile(0.9, 0)
    means, squares = (total / mass.clamp(min=1e-12) for total in sums)
    variance = (squares - means.square()).masked_fill((mass - most).abs() > 0.05 * most, torch.nan)
    return most[:, 0], (12 * variance.nanmedian(0).values.nan_to_num(0).clamp(min=0) + 1).sqrt()


def how_well(moving: Moving, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """By object: the mean squared distance of its pixels from its centre, the share of the pictures that it is in, and
    how much of the rectangle that it extends over its pixels fill, in the middle one of these pictures.

    A rectangle of evenly spread pixels fills itself: 1, at whatever size. Two things far apart that are taken for one
    extend over what lies between them, and fill little of it.
    """
    objects = len(weights["out_bias"])
    which = moving.picture * objects + belongs(moving, weights).argmax(1)
    terms = torch.cat((torch.ones(len(which), 1), moving.place, moving.place.square()), 1)
    totals = terms.new_zeros(max(1, moving.pictures) * objects, 5).index_add(0, which, terms)
    count, *sums = totals.unflatten(0, (-1, objects)).split((1, 2, 2), 2)
    means, squares = (total / count.clamp(min=1) for total in sums)
    variance, pixels = (squares - means.square()).clamp(min=0), count[..., 0]
    filled = (pixels / (12 * variance + 1).sqrt().prod(2)).masked_fill(pixels == 0, torch.nan)
    return {
        "distance": (variance.sum(2) * pixels).sum(0) / pixels.sum(0).clamp(min=1),
        "seen": (pixels > 0).float().mean(0),
        "filled": filled.nanmedian(0).values.nan_to_num(0),
    }


def size(
    moving: Moving,
    weights: Mapping[str, Tensor],
    openness: float = 0.0,
    measure: Callable[[Tensor], Tensor] = torch.clone,
) -> Tensor:
    """The mean squared distance of pixels from the centre of their object, in pixels, or what `measure` makes of it;
    less `openness` times the entropy of which object that is."""
    likely = belongs(moving, weights).log_softmax(1)
    shares = likely.exp() * moving.mass[:, None]  # of each object in each pixel
    row, column = moving.place.split(1, 1)
    weighed = torch.cat((shares, shares * row, shares * column), 1)
    totals = weighed.new_zeros(moving.pictures, weighed.shape[1]).index_add(0, moving.picture, weighed)
    mass, *sums = totals.chunk(3, 1)
    # index_select, whose slope is added up in order: an index in brackets is not, with several threads
    rows, columns = ((total / mass.clamp(min=1e-12)).index_select(0, moving.picture) for total in sums)
    squares = (row - rows).square() + (column - columns).square()
    return (shares * (measure(squares) + openness * likely)).sum() / moving.mass.sum().clamp(min=1.0)
