"""A small agent's networks on the agent's own weights, with the gradients written out by hand.

For a 64-64 network the arithmetic takes a tenth of the time that a general framework spends around it: a graph per
step, a dispatch per operator, a distribution per batch. Here products are NumPy's, what is between them is compiled
(`kernels.py`), everything is written into buffers that exist already, and nothing is recorded. The `Agent` stays the
owner of its weights: its parameters become views of one flat memory (actor, then critic), so that a state_dict, a
checkpoint or an evaluation sees what is learned here, and so that the norm, the clipping and the optimizer are one loop
each for all parameters together.

`Agent.act` and `Agent.evaluate` say what is right; `tests/unit/test_dense_net.py` holds this file to them. It is closed
by default: `is_known` lists what it knows, and an agent with anything else goes to `TorchNet`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, VALUE, Batch, Outputs
from gymnast.agent.bodies.mlp import ACTIVATIONS, Flat, MLPEncoder, OneHot
from gymnast.agent.bodies.parallel import together
from gymnast.agent.heads import CategoricalHead, GaussianHead, State
from gymnast.agent.nets import kernels
from gymnast.agent.nets.base import Arrays, Choice, Flags, Metrics, Net
from gymnast.agent.nets.optimizer import OPTIMIZERS, Adam, Optimizer, check_moments
from gymnast.agent.normalizer import ObsNormalizer, RewardNormalizer, RunningMoments
from gymnast.agent.tracker.tracker import Tracker
from gymnast.core.devices import trunks_at_once

Floats = NDArray[np.float32]

ALIGN = 16  # floats: every block of the flat memory begins on a cache line
BLOCK = 2048  # rows scored at once after a rollout: few enough to stay in the processor's cache
MOST_SIZES = 8  # of batches whose buffers are kept: REINFORCE has another one each time
NO_NOISE = torch.zeros(0, 0)
NOTHING = np.zeros((0, 0, 0), np.float32)
FEW = 32  # rows up to which a compiled loop beats BLAS
WORTH_A_THREAD = 1 << 24  # weights of a trunk times rows: with less, a second thread costs more than it saves
FEATURES = "features"  # the column of a prepared batch that replaces the observations


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

    def __init__(self, net: DenseNet, rows: int) -> None:
        n_actions = len(net.actor_bias)
        self.hidden: list[Floats] = [np.zeros((net.nets, rows, size), np.float32) for size in net.sizes]
        self.gradients: list[Floats] = [np.zeros_like(array) for array in self.hidden]
        self.outputs, self.outputs_gradient = (np.zeros((rows, n_actions), np.float32) for _ in range(2))
        self.values = np.zeros((rows, 1), np.float32)
        self.value = self.values[:, 0]
        self.logp, self.entropy = np.zeros((2, rows), np.float32)
        self.logp_slope, self.entropy_slope, self.value_slope = np.zeros((3, rows), np.float32)
        self.input: NDArray[Any] = np.zeros(0)
        self.action: NDArray[Any] = np.zeros(0)
        self.mask = kernels.NO_MASK


class DenseNet(Net):
    """Forward, backward and acting. `nets` is 2 where actor and critic have a trunk each, 1 where they share it."""

    compiled = True

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.normalizer, self.tracker = agent.normalizer, agent.tracker
        self.relu = agent.cfg.activation == "relu"
        self.sizes = list(agent.cfg.hidden)
        self.nets = 1 if agent.critic_body is None else 2
        (self.key, space), *_ = agent.obs_space.items()
        self.discrete = isinstance(space, gym.spaces.Discrete)
        self.spans = self._spans(agent)
        self.flat, self.gradient = torch.zeros(2, self.length)  # the gaps between blocks stay zero
        views = self.views(self.flat)
        for name, parameter in agent.named_parameters():
            parameter.data = views[name].copy_(parameter.data)
        self.parameters = list(agent.parameters())  # kept, so that no other one gets the id of one replaced since
        self.addresses = addresses(agent)
        self._bind(agent)
        self.trunk_weights = sum(layer.weight[0].size for layer in self.layers)
        self.trunks = self.nets if self._is_wide(BLOCK) else 1
        self.works: dict[int, Work] = {}
        self.acting: list[Floats] = []
        self.acting_outputs = np.zeros((0, 0), np.float32)
        self.noise = NO_NOISE
        self.chosen: NDArray[Any] = np.zeros(0)
        self.part_ends = np.array([span.stop for span in self.part_spans.values()])
        self.optimizer: Optimizer
        self.last: Work  # of the last `forward`
        self.untrained: set[str] = set()  # parts that no slope of the last `backward` reaches

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
        for part, parameters in agent.parts().items():
            begin = end
            for parameter in sorted(parameters, key=lambda p: id(p) not in trunks):
                spans[id(parameter)] = (end, end + parameter.numel())
                end += -(-parameter.numel() // ALIGN) * ALIGN
            if parameters:
                self.part_spans[part] = slice(begin, end)
        self.length = end
        return spans

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The flat memory in the shapes of the parameters that lie here, by name: one replaced since does not."""
        named = {name: p for name, p in self.agent.named_parameters() if id(p) in self.spans}
        return {name: flat[slice(*self.spans[id(p)])].view(p.shape) for name, p in named.items()}

    def holds(self) -> bool:
        """Whether the agent is still what it was: someone may have moved its parameters or frozen a layer."""
        kept = self.agent.normalizer is self.normalizer and self.agent.tracker is self.tracker
        same = kept and addresses(self.agent) == self.addresses
        return same and is_known(self.agent)

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

        last = [p for layer in (agent.actor_out, agent.critic_out) for p in (layer.weight, layer.bias)]
        self.actor_weight, self.actor_bias, self.critic_weight, self.critic_bias = (single(weights, p) for p in last)
        actor_weight, actor_bias, critic_weight, critic_bias = (single(gradients, p) for p in last)
        both = self.actor_weight, self.critic_weight[0]
        self.last_layers = (*both, actor_weight, actor_bias, critic_weight[0], critic_bias)
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
        if self.tracker is not None and obs.ndim > 2:
            obs = self.tracker.see(obs)
        rows = obs.reshape(len(obs), self.inputs)
        if self.normalizer is None:
            return rows.astype(np.float32, copy=False)
        moments = cast(RunningMoments, self.normalizer.moments[0])
        out = np.empty((len(obs), self.inputs), np.float32)
        shift, scale = (numbers.numpy().reshape(-1) for numbers in (moments.shift, moments.scale))
        kernels.normalize(rows, shift, scale, np.float32(self.normalizer.clip), out)
        return out

    def trunk(self, x: NDArray[Any], hidden: list[Floats]) -> Floats:
        """Through the first `hidden[i].shape[0]` nets; the last layer's outputs [nets, B, H]."""
        if not hidden:
            return x[None]
        nets, rows, _ = hidden[0].shape
        self._at_once(nets, rows, self._trunk, x, hidden)
        return hidden[-1]

    def _is_wide(self, rows: int) -> bool:
        return rows * self.trunk_weights >= WORTH_A_THREAD

    def _at_once(self, nets: int, rows: int, job: Callable[..., None], *inputs: Any) -> None:
        """A job on several nets: together, or each in a thread of its own where that pays."""
        if nets == 1 or trunks_at_once() == 1 or not self._is_wide(rows):
            job(slice(0, nets), *inputs)
        else:
            together([partial(job, slice(net, net + 1), *inputs) for net in range(nets)])

    def _trunk(self, nets: slice, x: NDArray[Any], hidden: list[Floats]) -> None:
        few = len(hidden[0]) == 1 and hidden[0].shape[1] <= FEW
        for i, (layer, outs) in enumerate(zip(self.layers, hidden, strict=True)):
            out = outs[nets]
            if i == 0 and self.discrete:  # a one-hot row times a matrix is a row of the matrix
                np.take(layer.weight_t[nets], x, 1, out=out, mode="clip")
            elif few:
                row = x if i == 0 else x[0]
                kernels.dense(row, self.weights, layer.weight_offset, layer.bias_offset, self.relu, out[0])
                x = out
                continue
            else:
                np.matmul(x, layer.weight_t[nets], out=out)
            bias = layer.bias_offset + nets.start * self.distance
            kernels.activate(out, self.weights, bias, self.distance, self.relu)
            x = out

    def prepare(self, batch: Batch) -> Batch:
        columns = {name: column.numpy() for name, column in batch.columns.items()}
        obs = columns.pop(OBS + self.key)
        return Batch(columns | {FEATURES: self.features(obs)})

    def shuffled(self, data: Batch, order: Tensor, size: int) -> Iterator[Batch]:
        """One gather for all: minibatches are then consecutive rows."""
        rows = order.numpy()
        columns = {name: column.take(rows, 0) for name, column in data.columns.items()}
        for begin in range(0, len(rows), size):
            yield Batch({name: column[begin : begin + size] for name, column in columns.items()})

    def forward(self, batch: Batch) -> Outputs:
        """Arrays that are valid until the next batch of the same size."""
        work = self.last = self.work(len(batch))
        work.input, work.action, work.mask = (
            batch[FEATURES],
            batch["action"],
            batch.columns.get("mask", kernels.NO_MASK),
        )
        features = self.trunk(work.input, work.hidden)
        kernels.outputs_of(features[0], self.actor_weight, self.actor_bias, work.outputs)
        kernels.outputs_of(features[-1], self.critic_weight, self.critic_bias, work.values)
        if self.log_std is None:  # either replaces the outputs by what `backward` needs of them
            kernels.score_categories(work.outputs, work.action, work.mask, work.logp, work.entropy)
        else:
            kernels.score_gaussian(work.outputs, work.action, self.log_std[0], work.logp, work.entropy)
        return Outputs(work.logp, work.entropy, {VALUE: work.value})

    def slopes(self) -> Outputs:
        """Where a kernel writes the slopes of the last outputs."""
        work = self.last
        return Outputs(work.logp_slope, work.entropy_slope, {VALUE: work.value_slope})

    def backward(self, slopes: Outputs) -> None:
        """The gradient of sum(logp_slope * logp + entropy_slope * entropy + value_slope * value) with respect to every
        weight, from what `forward` left."""
        work, value_slope = self.last, slopes.values[VALUE]
        self.untrained = {"critic"} if value_slope is None else set()
        mine = work.logp_slope, work.entropy_slope
        for memory, given in zip((*mine, work.value_slope), (*slopes[:2], value_slope), strict=True):
            if given is not memory:
                memory[:] = 0.0 if given is None else np.asarray(given)
        if self.log_std is None:
            kernels.category_gradient(work.outputs, work.action, work.mask, work.entropy, *mine, work.outputs_gradient)
        else:
            log_std, gradient = self.log_std
            kernels.gaussian_gradient(work.outputs, log_std, *mine, gradient, work.outputs_gradient)
        features, below = (work.hidden[-1], work.gradients[-1]) if self.layers else (work.input[None], NOTHING)
        kernels.outputs_backward(work.outputs_gradient, work.value_slope, features, *self.last_layers, below)
        if self.layers:
            self._at_once(self.nets, len(work.value), self._trunk_backward, work)

    def _trunk_backward(self, nets: slice, work: Work) -> None:
        """Gradients of these trunks, from those of their features."""
        skipped = nets.start * self.distance
        for i in range(len(self.layers) - 1, -1, -1):
            layer, delta = self.layers[i], work.gradients[i][nets]
            bias = layer.bias_offset + skipped
            kernels.activate_backward(delta, work.hidden[i][nets], self.gradients, bias, self.distance, self.relu)
            if i:
                np.matmul(delta.transpose(0, 2, 1), work.hidden[i - 1][nets], out=layer.weight_gradient[nets])
                np.matmul(delta, layer.weight[nets], out=work.gradients[i - 1][nets])
            elif self.discrete:
                weight = layer.weight_offset + skipped
                kernels.category_rows(delta, work.input, self.gradients, weight, self.distance, self.inputs)
            else:
                np.matmul(delta.transpose(0, 2, 1), work.input, out=layer.weight_gradient[nets])

    # Steps

    def use_optimizer(self, name: str, **numbers: Any) -> None:
        """Its moments lie as the weights do, and are saved and loaded by parameter like any other's."""
        self.optimizer, self.count = OPTIMIZERS[name]({}, **numbers), 0
        self.moments = {moment: torch.zeros_like(self.flat) for moment in self.optimizer.moments}
        self.moment_arrays = [memory.numpy() for memory in self.moments.values()]

    def step(self, rate: float, max_norm: float, critic_rate: float | None = None) -> NDArray[np.float64]:
        """The squares of the norms before clipping, by part."""
        squares = np.empty(len(self.part_ends))
        kernels.clip_gradient(self.gradients, self.part_ends, max_norm, squares)
        self.count += 1
        if critic_rate is None:
            self._move(slice(None), rate)
        else:
            for part, span in self.part_spans.items():
                self._move(span, critic_rate if part == "critic" else rate)
        return squares

    def _move(self, span: slice, rate: float) -> None:
        """The weights that lie there, by one step of the optimizer."""
        optimizer = self.optimizer
        if not isinstance(optimizer, Adam):
            moments = {name: memory[span] for name, memory in self.moments.items()}
            optimizer.apply([self.flat[span]], [self.gradient[span]], [moments], rate)
            return
        weights, gradients = self.weights[span], self.gradients[span]
        if optimizer.weight_decay and optimizer.decoupled:
            weights *= np.float32(1 - rate * optimizer.weight_decay)
        elif optimizer.weight_decay:
            gradients = gradients + np.float32(optimizer.weight_decay) * weights
        beta1, beta2 = optimizer.betas
        rate, root = rate / (1 - beta1**self.count), math.sqrt(1 - beta2**self.count)
        numbers = map(np.float32, (1 - beta1, 1 - beta2, rate, root, optimizer.eps))
        kernels.adam(weights, gradients, *(memory[span] for memory in self.moment_arrays), *numbers)

    def save_state(self) -> dict[str, Tensor]:
        if not self.count:
            return {}
        saved = {f"{name}/step": torch.tensor(float(self.count)) for name in self.views(self.flat)}
        for moment, memory in self.moments.items():
            saved |= {f"{name}/{moment}": view for name, view in self.views(memory).items()}
        return saved

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        check_moments(tensors, self.optimizer.moments)
        for moment, memory in self.moments.items():
            memory.zero_()
            for name, view in self.views(memory).items():
                held = tensors.get(f"{name}/{moment}")
                if held is not None and held.shape == view.shape:  # a layer that was replaced starts again
                    view.copy_(held)
        self.count = int(max((float(t) for key, t in tensors.items() if key.endswith("/step")), default=0.0))

    def norm_metrics(self, steps: Sequence[Any], max_norm: float) -> Metrics:
        if not steps:
            return {}
        squares = np.stack(steps)
        norm = np.sqrt(squares.sum(1))
        values: Metrics = {
            "train/grad_norm": float(norm.mean()),
            "train/grad_clipped_fraction": float((norm > max_norm).mean()),
        }
        means = dict(zip(self.part_spans, np.sqrt(squares).mean(0).tolist(), strict=True))
        # a norm of nothing is not reported
        return values | {f"train/grad_norm/{part}": m for part, m in means.items() if part not in self.untrained}

    # Acting

    def act(self, obs: Arrays, state: State, starts: Flags, mask: Flags | None, sample: Generator | None) -> Choice:
        """From the same random numbers as `Agent.act`.

        Only the actor runs: the agent stands still during a rollout, so `score` can follow in large batches.
        """
        numbers = obs[self.key]
        rows = len(numbers)
        if len(self.acting_outputs) != rows:
            self.acting = [np.zeros((1, rows, size), np.float32) for size in self.sizes]
            self.acting_outputs = np.zeros((rows, len(self.actor_bias)), np.float32)
            self.noise = torch.zeros(self.acting_outputs.shape)
            self.chosen = np.empty((rows, *self.agent.head.shape), np.int64 if self.log_std is None else np.float32)
        features, outputs = self.trunk(self.features(numbers), self.acting)[0], self.acting_outputs
        kernels.outputs_of(features, self.actor_weight, self.actor_bias, outputs)
        noise = self.noise if sample else NO_NOISE
        if self.log_std is None:
            if mask is not None:
                kernels.mask_outputs(outputs, mask)
            kernels.sample_category(outputs, noise.exponential_(generator=sample).numpy(), self.chosen)
        else:
            kernels.sample_gaussian(outputs, self.log_std[0], noise.normal_(generator=sample).numpy(), self.chosen)
        return Choice(self.chosen, None, None, state)

    def score(self, batch: Batch) -> Outputs:
        scores = np.empty((3, len(batch)), np.float32)
        for begin in range(0, len(batch), BLOCK):
            some = slice(begin, begin + BLOCK)
            out = self.forward(Batch({name: column[some] for name, column in batch.columns.items()}))
            scores[:, some] = out.logp, out.entropy, out.values[VALUE]
        logp, entropy, value = torch.from_numpy(scores)
        return Outputs(logp, entropy, {VALUE: value})

    def values(self, obs: Arrays, state: State, starts: Flags) -> dict[str, Tensor]:
        x = self.features(obs[self.key])
        hidden: list[Floats] = [np.empty((self.nets, len(x), size), np.float32) for size in self.sizes]
        return {VALUE: torch.from_numpy(self.trunk(x, hidden)[-1] @ self.critic_weight[0] + self.critic_bias)}


OURS = (Agent, MLPEncoder, Flat, OneHot, CategoricalHead, GaussianHead)
STATISTICS = (Tracker, ObsNormalizer, RewardNormalizer, RunningMoments)
KNOWN = {*OURS, *STATISTICS, nn.Linear, nn.Tanh, nn.ReLU, nn.Sequential, nn.ModuleList, nn.ModuleDict}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_known(agent: Agent) -> bool:
    """Whether an agent is made of nothing but what this file computes: one vector of numbers or bits, the objects of
    a picture, or one category; tanh or relu layers, one value, one choice or a plain Gaussian, all trained, on the CPU.
    Types must match exactly."""
    if any(type(module) not in KNOWN or _is_changed(module) for module in agent.modules()):
        return False
    if agent.value_names != (VALUE,) or len(agent.obs_space) != 1 or not _has_its_layers(agent):
        return False
    if not all(_is_trained_here(parameter) for parameter in agent.parameters()):
        return False
    (space,) = agent.obs_space.values()
    is_bits = space.dtype == np.int8 and agent.normalizer is None
    is_vector = isinstance(space, gym.spaces.Box) and (space.dtype == np.float32 or is_bits)
    is_vector = is_vector or agent.tracker is not None
    is_category = isinstance(space, gym.spaces.Discrete) and bool(agent.cfg.hidden)
    head = agent.head
    if isinstance(head, CategoricalHead):
        is_simple = head.single
    else:
        is_simple = isinstance(head, GaussianHead) and not head.squash and not head.state_dependent
    return (is_vector or is_category) and is_simple


def addresses(agent: Agent) -> dict[int, int]:
    """Where each parameter's numbers lie, by its id."""
    return {id(parameter): parameter.data_ptr() for parameter in agent.parameters()}


def _is_changed(module: nn.Module) -> bool:
    """Whether this one object computes something else than its type does."""
    return "forward" in vars(module) or any(getattr(module, hooks) for hooks in HOOKS)


def _is_trained_here(p: nn.Parameter) -> bool:
    return p.requires_grad and p.device.type == "cpu" and p.dtype == torch.float32 and not p._backward_hooks


def _has_its_layers(agent: Agent) -> bool:
    """Those of its config: none was added, taken away, replaced or given two places."""
    cfg, bodies = agent.cfg, [body for body in (agent.actor_body, agent.critic_body) if body is not None]
    kinds = [nn.Linear, ACTIVATIONS[cfg.activation]] * len(cfg.hidden)
    linears = len(bodies) * len(cfg.hidden) + 2  # each with a weight and a bias
    return all(
        [type(layer) for layer in body.layers] == kinds
        and [layer.out_features for layer in body.layers[::2]] == list(cfg.hidden)
        for body in bodies
    ) and len(list(agent.parameters())) == 2 * linears + hasattr(agent.head, "log_std")
