"""A small agent's networks on the agent's own weights, with the gradients written out by hand.

For a 64-64 network the arithmetic takes a tenth of the time that a general framework spends around it: a graph per
step, a dispatch per operator, a distribution per batch. Here products are NumPy's, what is between them is compiled
(`kernels.py`), everything is written into buffers that exist already, and nothing is recorded. The `Agent` stays the
owner of its weights: its parameters become views of one flat memory (actor, then critic), so that a state_dict, a
checkpoint or an evaluation sees what is learned here, and so that the norm, the clipping and the optimizer are one loop
each for all parameters together.

`Agent.act` and `Agent.evaluate` say what is right; `tests/unit/test_fast.py` holds this file to them. Agents that it
cannot serve (`fast_net` gives None) are served by those.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gymnast.agent import Agent
from gymnast.agent.bodies.mlp import MLPEncoder
from gymnast.agent.nets import kernels
from gymnast.agent.normalizer import RunningMoments

Floats = NDArray[np.float32]

ALIGN = 16  # floats: every block of the flat memory begins on a cache line
BLOCK = 2048  # rows scored at once after a rollout: few enough to stay in the processor's cache
MOST_SIZES = 8  # of batches whose buffers are kept: REINFORCE has another one each time
NO_NOISE = torch.zeros(0, 0)
NOTHING = np.zeros((0, 0, 0), np.float32)
FEW = 32  # rows up to which a compiled loop beats BLAS


@dataclass(frozen=True)
class Layer:
    """A trunk's layer: views of its weights [nets, out, in] and their gradients; where it lies in the flat memory."""

    weight: Floats
    weight_t: Floats  # [nets, in, out]
    weight_gradient: Floats
    weight_offset: int
    bias_offset: int


class Work:
    """All that a forward and backward pass over `rows` samples writes to."""

    def __init__(self, net: FastNet, rows: int) -> None:
        n_actions = len(net.actor_bias)
        self.hidden: list[Floats] = [np.zeros((net.nets, rows, size), np.float32) for size in net.sizes]
        self.gradients: list[Floats] = [np.zeros_like(array) for array in self.hidden]
        self.outputs, self.outputs_gradient = (np.zeros((rows, n_actions), np.float32) for _ in range(2))
        self.values = np.zeros((rows, 1), np.float32)
        self.value = self.values[:, 0]
        self.logp, self.entropy, self.weight, self.value_weight = np.zeros((4, rows), np.float32)
        self.input: NDArray[Any] = np.zeros(0)
        self.mask = kernels.NO_MASK


class FastNet:
    """Forward, backward and acting. `nets` is 2 where actor and critic have a trunk each, 1 where they share it."""

    def __init__(self, agent: Agent) -> None:
        self.parts = agent.parts()
        self.parameters = [parameter for part in self.parts.values() for parameter in part]
        self.normalizer = agent.normalizer
        self.relu = agent.cfg.activation == "relu"
        self.sizes = list(agent.cfg.hidden)
        self.nets = 1 if agent.critic_body is None else 2
        (self.key, space), *_ = agent.obs_space.items()
        self.discrete = isinstance(space, gym.spaces.Discrete)
        self.spans = self._spans(agent)
        self.flat = self.flat_memory()
        self.gradient = self.flat_memory()
        self.gradient_views = self.views(self.gradient)
        for parameter, view in zip(self.parameters, self.views(self.flat), strict=True):
            view.copy_(parameter.data)
            parameter.data = view
        self.addresses = [parameter.data_ptr() for parameter in self.parameters]
        self._bind(agent)
        self.works: dict[int, Work] = {}
        self.acting: list[Floats] = []
        self.acting_outputs = np.zeros((0, 0), np.float32)
        self.noise = NO_NOISE

    # Memory

    def _spans(self, agent: Agent) -> dict[int, tuple[int, int]]:
        """Where each parameter lies in the flat memory, by its id; and where each part does.

        A trunk comes first in its part and trunks are of equal shape, so the distance between an actor's parameter
        and the critic's like it is always the length of the actor's part: one strided array holds both.
        """
        trunks = {id(p) for body in (agent.actor_body, agent.critic_body) if body for p in body.parameters()}
        spans: dict[int, tuple[int, int]] = {}
        self.part_spans: dict[str, slice] = {}
        end = 0
        for part, parameters in self.parts.items():
            begin = end
            for parameter in sorted(parameters, key=lambda p: id(p) not in trunks):
                spans[id(parameter)] = (end, end + parameter.numel())
                end += -(-parameter.numel() // ALIGN) * ALIGN
            if parameters:
                self.part_spans[part] = slice(begin, end)
        self.length = end
        return spans

    def flat_memory(self) -> Tensor:
        """Zeros for everything there is one of a parameter. The gaps between blocks stay zero."""
        return torch.zeros(self.length)

    def views(self, flat: Tensor) -> list[Tensor]:
        """The flat memory in the parameters' shapes and order."""
        return [flat[slice(*self.spans[id(p)])].view(p.shape) for p in self.parameters]

    def holds(self) -> bool:
        """Whether the agent's parameters still lie here: someone may have moved them (`agent.to(...)`)."""
        return [p.data_ptr() for p in self.parameters] == self.addresses

    def _bind(self, agent: Agent) -> None:
        """NumPy views of weights and gradients, trunks of actor and critic stacked: [nets, out, in]."""
        weights, gradients = self.weights, self.gradients = self.flat.numpy(), self.gradient.numpy()
        distance = self.distance = (
            self.part_spans["critic"].start - self.part_spans["actor"].start if self.nets == 2 else 0
        )

        def stacked(memory: Floats, parameter: Tensor) -> Floats:
            strides = (4 * distance, *(4 * step for step in parameter.stride()))
            first = memory[slice(*self.spans[id(parameter)])]
            return np.lib.stride_tricks.as_strided(first, (self.nets, *parameter.shape), strides)

        def layer(linear: nn.Linear) -> Layer:
            offsets = (self.spans[id(parameter)][0] for parameter in (linear.weight, linear.bias))
            weight = stacked(weights, linear.weight)
            return Layer(weight, weight.transpose(0, 2, 1), stacked(gradients, linear.weight), *offsets)

        linears = [module for module in agent.actor_body.layers if isinstance(module, nn.Linear)]
        self.layers = [layer(linear) for linear in linears]
        self.inputs = linears[0].in_features if linears else agent.actor_out.in_features

        def single(memory: Floats, parameter: Tensor) -> Floats:
            return memory[slice(*self.spans[id(parameter)])].reshape(parameter.shape)

        outputs = (agent.actor_out, agent.critic_out)
        (self.actor_weight, self.actor_bias), (self.critic_weight, self.critic_bias) = (
            (single(weights, out.weight), single(weights, out.bias)) for out in outputs
        )
        (self.actor_weight_gradient, self.actor_bias_gradient), (critic_gradient, self.critic_bias_gradient) = (
            (single(gradients, out.weight), single(gradients, out.bias)) for out in outputs
        )
        self.critic_weight_gradient = critic_gradient[0]
        log_std = getattr(agent.head, "log_std", None)
        self.log_std = None if log_std is None else (single(weights, log_std), single(gradients, log_std))

    def work(self, rows: int) -> Work:
        """Buffers for batches of this size, kept: a run knows few sizes."""
        if rows not in self.works:
            if len(self.works) == MOST_SIZES:
                self.works.clear()
            self.works[rows] = Work(self, rows)
        return self.works[rows]

    # Forward

    def features(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Observations [B, ...] as the first layer takes them: normalised rows, or the numbers of categories."""
        if self.discrete:
            return obs.reshape(-1)
        rows = obs.reshape(len(obs), self.inputs)
        if self.normalizer is None:
            return rows
        moments = cast(RunningMoments, self.normalizer.moments[0])
        out = np.empty((len(obs), self.inputs), np.float32)
        shift, scale = (numbers.numpy().reshape(-1) for numbers in (moments.shift, moments.scale))
        kernels.normalize(rows, shift, scale, np.float32(self.normalizer.clip), out)
        return out

    def trunk(self, x: NDArray[Any], hidden: list[Floats]) -> Floats:
        """Through the first `hidden[i].shape[0]` nets; the last layer's outputs [nets, B, H]."""
        if not hidden:
            return x[None]
        for i, (layer, out) in enumerate(zip(self.layers, hidden, strict=True)):
            nets, rows, _ = out.shape
            if i == 0 and self.discrete:  # a one-hot row times a matrix is a row of the matrix
                np.take(layer.weight_t[:nets], x, 1, out=out, mode="clip")
            elif nets == 1 and rows <= FEW:
                row = x if i == 0 else x[0]
                kernels.dense(row, self.weights, layer.weight_offset, layer.bias_offset, self.relu, out[0])
                x = out
                continue
            else:
                np.matmul(x, layer.weight_t[:nets], out=out)
            kernels.activate(out, self.weights, layer.bias_offset, self.distance, self.relu)
            x = out
        return x

    def forward(self, x: NDArray[Any], work: Work) -> None:
        """The actor's outputs [B, actions] and the values."""
        work.input = x
        features = self.trunk(x, work.hidden)
        kernels.outputs_of(features[0], self.actor_weight, self.actor_bias, work.outputs)
        kernels.outputs_of(features[-1], self.critic_weight, self.critic_bias, work.values)

    def evaluate(self, action: NDArray[Any], mask: NDArray[np.bool_] | None, work: Work) -> None:
        """Log-probabilities of the actions, and entropies, from the outputs, which are used up."""
        work.mask = kernels.NO_MASK if mask is None else mask
        if self.log_std is None:
            kernels.score_categories(work.outputs, action, work.mask, work.logp, work.entropy)
        else:
            kernels.score_gaussian(work.outputs, action, self.log_std[0], work.logp, work.entropy)

    def backward(self, action: NDArray[Any], entropy_weight: float, work: Work) -> None:
        """The gradient of sum(weight * logp) + entropy_weight * sum(entropy) + sum(value_weight * value), with respect
        to every weight, from what `evaluate` left and the `weight` and `value_weight` [B] set since."""
        x, slope = work.input, np.float32(entropy_weight)
        if self.log_std is None:
            kernels.category_gradient(
                work.outputs, action, work.mask, work.entropy, work.weight, slope, work.outputs_gradient
            )
        else:
            log_std, gradient = self.log_std
            kernels.gaussian_gradient(work.outputs, log_std, work.weight, slope, gradient, work.outputs_gradient)
        kernels.outputs_backward(
            work.outputs_gradient,
            work.value_weight,
            work.hidden[-1] if self.layers else x[None],
            self.actor_weight,
            self.critic_weight[0],
            self.actor_weight_gradient,
            self.actor_bias_gradient,
            self.critic_weight_gradient,
            self.critic_bias_gradient,
            work.gradients[-1] if self.layers else NOTHING,
        )
        for i in range(len(self.layers) - 1, -1, -1):
            layer, delta = self.layers[i], work.gradients[i]
            kernels.activate_backward(
                delta, work.hidden[i], self.gradients, layer.bias_offset, self.distance, self.relu
            )
            if i:
                np.matmul(delta.transpose(0, 2, 1), work.hidden[i - 1], out=layer.weight_gradient)
                np.matmul(delta, layer.weight, out=work.gradients[i - 1])
            elif self.discrete:
                kernels.category_rows(delta, x, self.gradients, layer.weight_offset, self.distance, self.inputs)
            else:
                np.matmul(delta.transpose(0, 2, 1), x, out=layer.weight_gradient)

    # Acting

    def act(
        self, obs: NDArray[Any], mask: NDArray[np.bool_] | None, generator: torch.Generator | None, out: NDArray[Any]
    ) -> None:
        """Samples an action for each observation into `out`, from the same random numbers as `Agent.act`.

        Without a generator the likeliest is taken.
        Only the actor runs: the agent stands still during a rollout, so `score` can follow in large batches.
        """
        rows = len(obs)
        if len(self.acting_outputs) != rows:
            self.acting = [np.zeros((1, rows, size), np.float32) for size in self.sizes]
            self.acting_outputs = np.zeros((rows, len(self.actor_bias)), np.float32)
            self.noise = torch.zeros(self.acting_outputs.shape)
        features, outputs = self.trunk(self.features(obs), self.acting)[0], self.acting_outputs
        kernels.outputs_of(features, self.actor_weight, self.actor_bias, outputs)
        noise = self.noise if generator else NO_NOISE
        if self.log_std is None:
            if mask is not None:
                kernels.mask_outputs(outputs, mask)
            kernels.sample_category(outputs, noise.exponential_(generator=generator).numpy(), out)
        else:
            kernels.sample_gaussian(outputs, self.log_std[0], noise.normal_(generator=generator).numpy(), out)

    def score(self, obs: NDArray[Any], action: NDArray[Any], mask: NDArray[np.bool_] | None) -> tuple[Floats, Floats]:
        """Log-probabilities of actions taken, and values, [B] each."""
        rows = len(obs)
        logp, value = np.empty(rows, np.float32), np.empty(rows, np.float32)
        for begin in range(0, rows, BLOCK):
            some = slice(begin, min(begin + BLOCK, rows))
            work = self.work(some.stop - begin)
            self.forward(self.features(obs[some]), work)
            self.evaluate(action[some], None if mask is None else mask[some], work)
            logp[some], value[some] = work.logp, work.value
        return logp, value

    def score_rollout(
        self, obs: NDArray[Any], action: NDArray[Any], mask: NDArray[np.bool_] | None, logp: Floats, value: Floats
    ) -> None:
        """Fills a rollout's log-probabilities and values [T, N]."""

        def flat(array: NDArray[Any]) -> NDArray[Any]:
            return array.reshape(-1, *array.shape[2:])

        flat(logp)[:], flat(value)[:] = self.score(flat(obs), flat(action), None if mask is None else flat(mask))

    def value(self, obs: NDArray[Any]) -> Floats:
        """Values alone, of any number of observations."""
        x = self.features(obs)
        hidden: list[Floats] = [np.empty((self.nets, len(x), size), np.float32) for size in self.sizes]
        return self.trunk(x, hidden)[-1] @ self.critic_weight[0] + self.critic_bias


def supports(agent: Agent) -> bool:
    """One vector of numbers or one category, tanh or relu layers, one choice or a plain Gaussian, on the CPU."""
    if len(agent.obs_space) != 1 or not isinstance(agent.actor_body, MLPEncoder) or agent.cfg.layer_norm:
        return False
    (space,) = agent.obs_space.values()
    is_vector = isinstance(space, gym.spaces.Box) and space.dtype == np.float32
    is_category = isinstance(space, gym.spaces.Discrete) and agent.cfg.discrete_encoding == "one_hot"
    if not is_vector and not (is_category and agent.cfg.hidden):
        return False
    if isinstance(agent.action_space, gym.spaces.Box):
        if agent.cfg.std != "state_independent" or agent.cfg.squash:
            return False
    elif not isinstance(agent.action_space, gym.spaces.Discrete):
        return False
    on_cpu = all(p.device.type == "cpu" and p.dtype == torch.float32 for p in agent.parameters())
    return on_cpu and agent.cfg.activation in ("tanh", "relu")


_NETS: WeakKeyDictionary[Agent, FastNet | None] = WeakKeyDictionary()
_switched_off: list[None] = []  # one entry for every `reference_only` that is open


def fast_net(agent: Agent) -> FastNet | None:
    """The agent's fast network, made once; None where it has to do without."""
    if _switched_off:
        return None
    net = _NETS.get(agent)
    if agent not in _NETS or (net is not None and not net.holds()):
        net = _NETS[agent] = FastNet(agent) if supports(agent) else None
    return net


@contextmanager
def reference_only() -> Iterator[None]:
    """Inside, every agent goes the reference's way: for comparing the two."""
    _switched_off.append(None)
    try:
        yield
    finally:
        _switched_off.pop()
