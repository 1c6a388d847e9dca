"""A small agent's networks in NumPy, on the agent's own weights, with the gradients written out by hand.

For a 64-64 network the arithmetic takes a tenth of the time that a general framework spends around it: a graph per
step, a dispatch per operator, a distribution per batch. Here every operator writes into a buffer that exists already
and nothing is recorded. The `Agent` stays the owner of its weights: its parameters become views of one flat memory
(actor, then critic), so that a state_dict, a checkpoint or an evaluation sees what is learned here, and so that the
norm, the clipping and the optimizer are one operator each for all parameters together.

`Agent.act` and `Agent.evaluate` say what is right; `tests/unit/test_fast.py` holds this file to them. Agents that it
cannot serve (`fast_net` gives None) are served by those.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gymnast.agent import Agent
from gymnast.agent.distributions import MASKED
from gymnast.agent.encoders import MLPEncoder
from gymnast.agent.normalizer import RunningMoments
from gymnast.rl.fast_heads import CategoricalScores, GaussianScores

Floats = NDArray[np.float32]
Layer = tuple[Floats, Floats]  # weight and bias

ALIGN = 16  # floats: every block of the flat memory begins on a cache line
BLOCK = 2048  # rows scored at once after a rollout: few enough to stay in the processor's cache
MOST_SIZES = 8  # of batches whose buffers are kept: REINFORCE has another one each time
SMALL = 2048  # numbers up to which one call of a slow tanh beats three calls of fast operators


class Activations:
    """Buffers of one forward pass: each layer's outputs [nets, B, H], also as tensors on the same memory."""

    def __init__(self, sizes: list[int], nets: int, rows: int) -> None:
        self.tensors = [torch.zeros(nets, rows, size) for size in sizes]
        self.arrays: list[Floats] = [tensor.numpy() for tensor in self.tensors]


class Work(Activations):
    """All that a forward and backward pass over `rows` samples writes to."""

    def __init__(self, net: FastNet, rows: int) -> None:
        super().__init__(net.sizes, net.nets, rows)
        self.gradients: list[Floats] = [np.zeros_like(array) for array in self.arrays]
        self.slopes: list[Floats] = [np.zeros_like(array) for array in self.arrays]
        self.value = np.zeros(rows, np.float32)
        self.ones = np.ones(rows, np.float32)
        self.scores = net.scores(rows)
        self.input: NDArray[Any] = np.zeros(0)


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
        self.acting = Activations(self.sizes, 1, 0)

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
        weights, gradients = self.flat.numpy(), self.gradient.numpy()
        distance = self.part_spans["critic"].start - self.part_spans["actor"].start if self.nets == 2 else 0

        def stacked(memory: Floats, parameter: Tensor) -> Floats:
            begin, end = self.spans[id(parameter)]
            rows = [memory[begin + net * distance : end + net * distance] for net in range(self.nets)]
            strides = (4 * distance, *(4 * step for step in parameter.stride()))
            return np.lib.stride_tricks.as_strided(rows[0], (self.nets, *parameter.shape), strides)

        def layer(memory: Floats, linear: nn.Linear) -> Layer:
            return stacked(memory, linear.weight), stacked(memory, linear.bias)

        linears = [module for module in agent.actor_body.layers if isinstance(module, nn.Linear)]
        self.layers = [layer(weights, linear) for linear in linears]
        self.layer_gradients = [layer(gradients, linear) for linear in linears]
        self.inputs = linears[0].in_features if linears else agent.actor_out.in_features
        # As a forward pass wants them: [nets, in, out] and [nets, 1, out].
        self.forward_layers = [(weight.transpose(0, 2, 1), bias[:, None]) for weight, bias in self.layers]
        self.acting_layers = [(weight[:1], bias[:1]) for weight, bias in self.forward_layers]

        def single(memory: Floats, parameter: Tensor) -> Floats:
            return memory[slice(*self.spans[id(parameter)])].reshape(parameter.shape)

        outputs = (agent.actor_out, agent.critic_out)
        (self.actor_weight, self.actor_bias), (critic_weight, self.critic_bias) = (
            (single(weights, out.weight), single(weights, out.bias)) for out in outputs
        )
        (self.actor_weight_gradient, self.actor_bias_gradient), (critic_gradient, self.critic_bias_gradient) = (
            (single(gradients, out.weight), single(gradients, out.bias)) for out in outputs
        )
        self.critic_weight, self.critic_weight_gradient = critic_weight[0], critic_gradient[0]
        log_std = getattr(agent.head, "log_std", None)
        self.log_std = None if log_std is None else (single(weights, log_std), single(gradients, log_std))

    def scores(self, rows: int) -> CategoricalScores | GaussianScores:
        n_actions = len(self.actor_bias)
        if self.log_std is None:
            return CategoricalScores(n_actions, rows)
        return GaussianScores(n_actions, rows, *self.log_std)

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
        rows = (rows - moments.shift.numpy().reshape(-1)) * moments.scale.numpy().reshape(-1)
        return np.clip(rows, -self.normalizer.clip, self.normalizer.clip, out=rows)

    def hidden(self, layers: list[Layer], x: NDArray[Any], buffers: Activations) -> Floats:
        """Through the trunks; the last layer's outputs [nets, B, H]."""
        if not layers:
            return x[None]
        for i, (weight, bias) in enumerate(layers):
            out = buffers.arrays[i]
            if i == 0 and self.discrete:  # a one-hot row times a matrix is a row of the matrix
                np.take(weight, x, 1, out=out, mode="clip")
            else:
                np.matmul(x, weight, out=out)
            np.add(out, bias, out=out)
            if self.relu:
                np.maximum(out, 0.0, out=out)
            elif out.size <= SMALL:
                np.tanh(out, out=out)
            else:  # tanh x = 2 sigmoid(2x) - 1, which torch computes in half the time of either library's tanh
                np.add(out, out, out=out)
                buffers.tensors[i].sigmoid_()
                np.add(out, out, out=out)
                np.subtract(out, 1.0, out=out)
            x = out
        return x

    def forward(self, x: NDArray[Any], work: Work) -> None:
        """Values, and the actor's outputs in `work.scores`, [actions, B]: operators over actions run along rows."""
        work.input = x
        features = self.hidden(self.forward_layers, x, work)
        np.matmul(self.actor_weight, features[0].T, out=work.scores.outputs)
        np.add(work.scores.outputs, self.actor_bias[:, None], out=work.scores.outputs)
        np.matmul(features[-1], self.critic_weight, out=work.value)
        np.add(work.value, self.critic_bias, out=work.value)

    def backward(self, outputs_gradient: Floats, value_gradient: Floats, work: Work) -> None:
        """The loss's gradient with respect to every weight, from those for outputs [actions, B] and values [B]."""
        x = work.input
        features = work.arrays[-1] if self.layers else x[None]
        np.matmul(outputs_gradient, features[0], out=self.actor_weight_gradient)
        np.matmul(outputs_gradient, work.ones, out=self.actor_bias_gradient)
        np.matmul(value_gradient, features[-1], out=self.critic_weight_gradient)
        self.critic_bias_gradient[0] = value_gradient.sum()
        if not self.layers:
            return
        delta = work.gradients[-1]
        np.matmul(outputs_gradient.T, self.actor_weight, out=delta[0])
        if self.nets == 2:
            np.multiply(value_gradient[:, None], self.critic_weight, out=delta[1])
        else:
            np.add(delta[0], value_gradient[:, None] * self.critic_weight, out=delta[0])
        for i in range(len(self.layers) - 1, -1, -1):
            out, slope = work.arrays[i], work.slopes[i]
            if self.relu:
                np.multiply(delta, np.greater(out, 0.0), out=delta)
            else:  # tanh' = 1 - tanh^2
                np.multiply(out, out, out=slope)
                np.multiply(slope, delta, out=slope)
                np.subtract(delta, slope, out=delta)
            weight_gradient, bias_gradient = self.layer_gradients[i]
            np.matmul(work.ones, delta, out=bias_gradient)
            if i:
                np.matmul(delta.transpose(0, 2, 1), work.arrays[i - 1], out=weight_gradient)
                np.matmul(delta, self.layers[i][0], out=work.gradients[i - 1])
                delta = work.gradients[i - 1]
            elif self.discrete:  # each category's column gathers the rows of the samples that were in it
                order = np.argsort(x, kind="stable")
                seen, first = np.unique(x[order], return_index=True)
                weight_gradient.fill(0.0)
                weight_gradient.transpose(0, 2, 1)[:, seen] = np.add.reduceat(delta[:, order], first, axis=1)
            else:
                np.matmul(delta.transpose(0, 2, 1), x, out=weight_gradient)

    # Acting

    def act(
        self, obs: NDArray[Any], mask: NDArray[np.bool_] | None, generator: torch.Generator | None, out: NDArray[Any]
    ) -> None:
        """Samples an action for each observation into `out`, from the same random numbers as `Agent.act`.

        Without a generator the likeliest is taken.
        Only the actor runs: the agent stands still during a rollout, so `score` can follow in large batches.
        """
        rows = len(obs)
        if self.acting.arrays and self.acting.arrays[0].shape[1] != rows:
            self.acting = Activations(self.sizes, 1, rows)
        features = self.hidden(self.acting_layers, self.features(obs), self.acting)[0]
        outputs = np.matmul(features, self.actor_weight.T)
        np.add(outputs, self.actor_bias, out=outputs)
        if mask is not None:
            outputs[~mask] = MASKED
        noise = torch.empty(outputs.shape)
        if self.log_std is None:
            waits = noise.exponential_(generator=generator).numpy() if generator else None
            CategoricalScores.sample(outputs, waits, out)
        else:
            normal = noise.normal_(generator=generator).numpy() if generator else None
            GaussianScores.sample(outputs, self.log_std[0], normal, out)

    def score(self, obs: NDArray[Any], action: NDArray[Any], mask: NDArray[np.bool_] | None) -> tuple[Floats, Floats]:
        """Log-probabilities of actions taken, and values, [B] each."""
        rows = len(obs)
        logp, value = np.empty(rows, np.float32), np.empty(rows, np.float32)
        for begin in range(0, rows, BLOCK):
            some = slice(begin, min(begin + BLOCK, rows))
            work = self.work(some.stop - begin)
            self.forward(self.features(obs[some]), work)
            work.scores.evaluate(action[some], None if mask is None else mask[some])
            logp[some], value[some] = work.scores.logp, work.value
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
        features = self.hidden(self.forward_layers, x, Activations(self.sizes, self.nets, len(x)))
        return features[-1] @ self.critic_weight + self.critic_bias


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
