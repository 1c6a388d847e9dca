"""The algorithms' gradient steps on a `FastNet`: the same numbers as `ppo.py`, `a2c.py`, `reinforce.py`, in less time.

Those files are the reference and say what is computed; here the loss is never built, only its gradient with respect
to the network's outputs, and metrics are taken from what all minibatches left behind, once an update.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent.nets import kernels
from gymnast.agent.nets.dense_net import FastNet, Work
from gymnast.rl.optimizer import Adam, Optimizer
from gymnast.rl.rollout import Batch

if TYPE_CHECKING:
    from gymnast.config import AlgoConfig, PPOConfig

Floats = NDArray[np.float32]


class FlatOptimizer:
    """An optimizer's step over the flat memory. The moments are views that the optimizer holds as its own, by
    parameter, so that what `Learner.save_state` saves is what is used here."""

    def __init__(self, net: FastNet, optimizer: Optimizer) -> None:
        self.net, self.optimizer = net, optimizer
        flat = {name: net.flat_memory() for name in optimizer.moments()}
        self.arrays = [memory.numpy() for memory in flat.values()]
        steps = torch.zeros(len(net.parameters))
        self.count = steps.numpy()  # the same memory
        self.flat_state = {"step": steps[0]} | flat
        views = {"step": list(steps.unbind())} | {name: net.views(memory) for name, memory in flat.items()}
        self.states = [{name: tensors[i] for name, tensors in views.items()} for i in range(len(steps))]

    def attach(self) -> None:
        """Takes over the optimizer's state where it is another: new, reset, loaded, or made in the reference's way."""
        held = self.optimizer.state
        for parameter, state in zip(self.net.parameters, self.states, strict=True):
            theirs = held.get(parameter)
            if theirs is state:
                continue
            for name, mine in state.items():
                mine.copy_(theirs[name]) if theirs else mine.zero_()
            held[parameter] = state
        for parameter, view in zip(self.net.parameters, self.net.gradient_views, strict=True):
            parameter.grad = view

    def step(self) -> None:
        """All parameters as one."""
        self.count += 1
        if not isinstance(self.optimizer, Adam):
            self.optimizer.apply([self.net.flat], [self.net.gradient], [self.flat_state])
            return
        (beta1, beta2), steps = self.optimizer.betas, int(self.count[0])
        rate, root = self.optimizer.lr / (1 - beta1**steps), math.sqrt(1 - beta2**steps)
        numbers = map(np.float32, (1 - beta1, 1 - beta2, rate, root, self.optimizer.eps))
        kernels.adam(self.net.weights, self.net.gradients, *self.arrays, *numbers)


class FastSteps:
    """What a learner needs to update a small agent."""

    def __init__(self, net: FastNet, algo: AlgoConfig, optimizer: Optimizer) -> None:
        self.net, self.algo = net, algo
        self.optimizer = FlatOptimizer(net, optimizer)
        self.part_ends = np.array([span.stop for span in net.part_spans.values()])
        self.huber_delta = np.float32(algo.huber_delta if algo.value_loss == "huber" else -1)  # negative: off

    def gradient_step(self, squares: NDArray[np.float64]) -> None:
        """Clips and applies the gradient that is there; the norm's square before that goes to `squares`, by part."""
        kernels.clip_gradient(self.net.gradients, self.part_ends, self.algo.max_grad_norm, squares)
        self.optimizer.step()

    def norm_metrics(self, squares: NDArray[np.float64]) -> dict[str, float]:
        """From the squares [steps, parts] of all gradient steps."""
        if not len(squares):
            return {}
        norm = np.sqrt(squares.sum(1))
        values = {
            "train/grad_norm": float(norm.mean()),
            "train/grad_clipped_fraction": float((norm > self.algo.max_grad_norm).mean()),
        }
        means = np.sqrt(squares).mean(0).tolist()
        return values | {f"train/grad_norm/{part}": m for part, m in zip(self.net.part_spans, means, strict=True)}

    def loss_metrics(self, policy_loss: float, value_loss: float, entropy: float, progress: float) -> dict[str, float]:
        vf_coef, ent_coef = self.algo.vf_coef.value(progress), self.algo.ent_coef.value(progress)
        return {
            "train/loss": policy_loss + vf_coef * value_loss - ent_coef * entropy,
            "train/policy_gradient_loss": policy_loss,
            "train/value_loss": value_loss,
            "train/entropy_loss": -entropy,
            "train/entropy": entropy,
            "train/value_loss_scaled": vf_coef * value_loss,
            "train/entropy_loss_scaled": -ent_coef * entropy,
        }

    def ppo(self, algo: PPOConfig, data: Batch, progress: float, generator: torch.Generator) -> dict[str, float]:
        """All epochs of PPO on a rollout whose size is a multiple of the batch size."""
        net, size, total = self.net, algo.batch_size, len(data.logp)
        self.optimizer.attach()
        work = net.work(size)
        count = total // size
        clip, vf_coef, ent_coef = (s.value(progress) for s in (algo.clip_range, algo.vf_coef, algo.ent_coef))
        limit = None if algo.clip_range_vf is None else algo.clip_range_vf.value(progress)
        bounds = [np.float32(clip), np.float32(-1 if limit is None else limit), self.huber_delta, np.float32(vf_coef)]
        features, actions = net.features(data.obs[net.key].numpy()), data.action.numpy()
        masks = None if data.mask is None else data.mask.numpy()
        numbers = torch.stack([data.logp, data.value, data.advantage, data.returns]).numpy()
        sums = np.zeros((algo.n_epochs * count, kernels.SUMS))
        norms = np.zeros((len(sums), len(self.part_ends)))
        seen, epochs, kl_stop = 0, 0, False
        for _ in range(algo.n_epochs):
            order = torch.randperm(total, generator=generator).numpy()
            # One gather an epoch: its minibatches are then consecutive rows.
            x, action = features.take(order, 0), actions.take(order, 0)
            mask = None if masks is None else masks.take(order, 0)
            old_logp, old_value, advantage, returns = numbers.take(order, 1).reshape(4, count, size)
            if algo.normalize_advantage == "batch" and size > 1:
                kernels.normalize_rows(advantage)
            for i in range(count):
                some = slice(i * size, (i + 1) * size)
                taken = action[some]
                net.forward(x[some], work)
                net.evaluate(taken, None if mask is None else mask[some], work)
                kernels.ppo_weights(
                    work.logp,
                    old_logp[i],
                    work.entropy,
                    advantage[i],
                    work.value,
                    old_value[i],
                    returns[i],
                    *bounds,
                    work.weight,
                    work.value_weight,
                    sums[seen],
                )
                seen += 1
                if algo.target_kl and sums[seen - 1, kernels.KL] / size > 1.5 * algo.target_kl:
                    kl_stop = True
                    break
                net.backward(taken, -ent_coef / size, work)
                self.gradient_step(norms[seen - 1])
            if kl_stop:
                break
            epochs += 1
        means = (sums[:seen].mean(0) / size).tolist()
        metrics = self.loss_metrics(-means[kernels.GAIN], means[kernels.VALUE_LOSS], means[kernels.ENTROPY], progress)
        if limit is not None:
            metrics["train/clip_fraction_vf"] = means[kernels.VALUE_CLIPPED]
        return (
            metrics
            | {
                "train/approx_kl": means[kernels.KL],
                "train/clip_fraction": means[kernels.CLIPPED],
                "train/ratio": means[kernels.RATIO],
            }
            | self.norm_metrics(norms[: seen - kl_stop])
            | {
                "train/ratio_first": float(sums[0, kernels.RATIO]) / size,
                "train/epochs": float(epochs),
                "train/kl_stop": float(kl_stop),
            }
        )

    def policy_gradient(
        self,
        obs: dict[str, Tensor],
        action: Tensor,
        mask: Tensor | None,
        weight: Tensor,
        returns: Tensor | None,
        progress: float,
    ) -> dict[str, float]:
        """One step on -mean(weight * logp), the value loss (none where returns are) and the entropy."""
        self.optimizer.attach()
        net, size = self.net, len(action)
        work: Work = net.work(size)
        vf_coef, ent_coef = self.algo.vf_coef.value(progress), self.algo.ent_coef.value(progress)
        net.forward(net.features(obs[net.key].numpy()), work)
        actions = action.numpy()
        net.evaluate(actions, None if mask is None else mask.numpy(), work)
        weights = weight.numpy()
        policy_loss, entropy, value_loss = -mean(weights * work.logp), mean(work.entropy), 0.0
        np.multiply(weights, -1 / size, out=work.weight)
        work.value_weight.fill(0.0)
        if returns is not None:
            value_loss = kernels.value_weights(
                work.value, returns.numpy(), self.huber_delta, np.float32(vf_coef), work.value_weight
            )
        net.backward(actions, -ent_coef / size, work)
        squares = np.zeros((1, len(self.part_ends)))
        self.gradient_step(squares[0])
        norms = self.norm_metrics(squares)
        if returns is None:  # nothing reaches the critic, and a norm of nothing is not reported
            del norms["train/grad_norm/critic"]
        return self.loss_metrics(policy_loss, value_loss, entropy, progress) | norms


def mean(values: NDArray[Any]) -> float:
    return float(values.mean(dtype=np.float64))
