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

from gymnast.rl.fast_net import FastNet, Work
from gymnast.rl.optimizer import Optimizer
from gymnast.rl.rollout import Batch

if TYPE_CHECKING:
    from gymnast.config import AlgoConfig, PPOConfig

Floats = NDArray[np.float32]
Metrics = dict[str, Tensor]


class FlatOptimizer:
    """An optimizer's step over the flat memory. The moments are views that the optimizer holds as its own, by
    parameter, so that what `Learner.save_state` saves is what is used here."""

    def __init__(self, net: FastNet, optimizer: Optimizer) -> None:
        self.net, self.optimizer = net, optimizer
        flat = {name: net.flat_memory() for name in optimizer.moments()}
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
        self.optimizer.apply([self.net.flat], [self.net.gradient], [self.flat_state])


class FastSteps:
    """What a learner needs to update a small agent."""

    def __init__(self, net: FastNet, algo: AlgoConfig, optimizer: Optimizer) -> None:
        self.net, self.algo = net, algo
        self.optimizer = FlatOptimizer(net, optimizer)
        self.kept: dict[str, Floats] = {}

    def gradient_step(self) -> list[float]:
        """Clips and applies the gradient that is there; returns the norm's square for each part, before clipping."""
        gradient = self.net.gradient.numpy()
        squares = [float(gradient[span].dot(gradient[span])) for span in self.net.part_spans.values()]
        scale = self.algo.max_grad_norm / (math.sqrt(sum(squares)) + 1e-6)
        if scale < 1.0:
            np.multiply(gradient, scale, out=gradient)
        self.optimizer.step()
        return squares

    def norm_metrics(self, rows: list[list[float]]) -> dict[str, float]:
        if not rows:
            return {}
        squares = np.array(rows)
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

    def value_loss(self, error: Floats) -> float:
        if self.algo.value_loss == "mse":
            return mean(error * error)
        size, delta = np.abs(error), self.algo.huber_delta
        return mean(np.where(size < delta, 0.5 * error * error, delta * (size - 0.5 * delta)))

    def value_slope(self, error: Floats, vf_coef: float, out: Floats) -> None:
        """The gradient of vf_coef * value_loss with respect to each value."""
        if self.algo.value_loss == "mse":
            np.multiply(error, 2 * vf_coef / len(error), out=out)
        else:
            np.maximum(error, -self.algo.huber_delta, out=out)
            np.minimum(out, self.algo.huber_delta, out=out)
            np.multiply(out, vf_coef / len(error), out=out)

    def keep(self, name: str, rows: int, size: int) -> Floats:
        """A buffer for what every minibatch of an update leaves behind."""
        buffer = self.kept.get(name)
        if buffer is None or buffer.shape != (rows, size):
            buffer = self.kept[name] = np.zeros((rows, size), np.float32)
        return buffer

    def ppo(self, algo: PPOConfig, data: Batch, progress: float, generator: torch.Generator) -> Metrics:
        """All epochs of PPO on a rollout whose size is a multiple of the batch size."""
        net, size, total = self.net, algo.batch_size, len(data.logp)
        self.optimizer.attach()
        work = net.work(size)
        count = total // size
        clip, vf_coef, ent_coef = (s.value(progress) for s in (algo.clip_range, algo.vf_coef, algo.ent_coef))
        limit = None if algo.clip_range_vf is None else algo.clip_range_vf.value(progress)
        columns: list[NDArray[Any]] = [
            net.features(data.obs[net.key].numpy()),
            *(column.numpy() for column in (data.action, data.logp, data.value, data.advantage, data.returns)),
        ]
        if data.mask is not None:
            columns.append(data.mask.numpy())
        log_ratios, ratios, gains, entropies, errors, changes = (
            self.keep(name, algo.n_epochs * count, size)
            for name in ("log_ratio", "ratio", "gain", "entropy", "error", "change")
        )
        plain, clipped, weight, value_weight = np.empty((4, size), np.float32)
        active = np.empty(size, np.bool_)
        norms: list[list[float]] = []
        seen, epochs, kl_stop = 0, 0, False
        for _ in range(algo.n_epochs):
            order = torch.randperm(total, generator=generator).numpy()
            # One gather an epoch: its minibatches are then consecutive rows.
            batches = [np.take(column, order, 0).reshape(count, size, *column.shape[1:]) for column in columns]
            if algo.normalize_advantage == "batch" and size > 1:
                batches[4] = normalized_rows(batches[4])
            for x, action, old_logp, old_value, advantage, returns, *mask in zip(*batches, strict=True):
                k = seen
                net.forward(x, work)
                scores = work.scores
                scores.evaluate(action, mask[0] if mask else None)
                log_ratio, ratio, error = log_ratios[k], ratios[k], errors[k]
                np.subtract(scores.logp, old_logp, out=log_ratio)
                np.exp(log_ratio, out=ratio)
                entropies[k] = scores.entropy
                # The smaller of advantage * ratio and advantage * clipped ratio counts. Where that is the first, its
                # gradient with respect to logp is advantage * ratio; the second, where it is smaller, is a constant.
                np.multiply(advantage, ratio, out=plain)
                np.maximum(ratio, 1 - clip, out=clipped)
                np.minimum(clipped, 1 + clip, out=clipped)
                np.multiply(advantage, clipped, out=clipped)
                np.minimum(plain, clipped, out=gains[k])
                np.less_equal(plain, clipped, out=active)
                np.multiply(plain, active, out=weight)
                np.multiply(weight, -1 / size, out=weight)
                np.subtract(work.value, returns, out=error)
                if limit is not None:  # the value counts as at most `limit` away from the old one
                    change = np.subtract(work.value, old_value, out=changes[k])
                    np.add(old_value, np.clip(change, -limit, limit), out=error)
                    np.subtract(error, returns, out=error)
                self.value_slope(error, vf_coef, out=value_weight)
                if limit is not None:
                    np.multiply(value_weight, np.abs(change) <= limit, out=value_weight)
                seen += 1
                if algo.target_kl and mean(ratio - 1 - log_ratio) > 1.5 * algo.target_kl:
                    kl_stop = True
                    break
                net.backward(scores.gradient(weight, -ent_coef / size), value_weight, work)
                norms.append(self.gradient_step())
            if kl_stop:
                break
            epochs += 1
        log_ratios, ratios = log_ratios[:seen], ratios[:seen]
        metrics = self.loss_metrics(
            -mean(gains[:seen]), self.value_loss(errors[:seen]), mean(entropies[:seen]), progress
        )
        if limit is not None:
            metrics["train/clip_fraction_vf"] = mean(np.abs(changes[:seen]) > limit)
        return as_metrics(
            metrics
            | {
                "train/approx_kl": mean(ratios - 1 - log_ratios),
                "train/clip_fraction": mean(np.abs(ratios - 1) > clip),
                "train/ratio": mean(ratios),
            }
            | self.norm_metrics(norms)
            | {"train/ratio_first": mean(ratios[0]), "train/epochs": epochs, "train/kl_stop": kl_stop}
        )

    def policy_gradient(
        self,
        obs: dict[str, Tensor],
        action: Tensor,
        mask: Tensor | None,
        weight: Tensor,
        returns: Tensor | None,
        progress: float,
    ) -> Metrics:
        """One step on -mean(weight * logp), the value loss (none where returns are) and the entropy."""
        self.optimizer.attach()
        net, size = self.net, len(action)
        work: Work = net.work(size)
        vf_coef, ent_coef = self.algo.vf_coef.value(progress), self.algo.ent_coef.value(progress)
        net.forward(net.features(obs[net.key].numpy()), work)
        work.scores.evaluate(action.numpy(), None if mask is None else mask.numpy())
        weights = weight.numpy()
        policy_loss, entropy, value_loss = -mean(weights * work.scores.logp), mean(work.scores.entropy), 0.0
        value_weight = np.zeros(size, np.float32)
        if returns is not None:
            error = work.value - returns.numpy()
            value_loss = self.value_loss(error)
            self.value_slope(error, vf_coef, out=value_weight)
        net.backward(work.scores.gradient(weights * np.float32(-1 / size), -ent_coef / size), value_weight, work)
        norms = self.norm_metrics([self.gradient_step()])
        if returns is None:  # nothing reaches the critic, and a norm of nothing is not reported
            del norms["train/grad_norm/critic"]
        return as_metrics(self.loss_metrics(policy_loss, value_loss, entropy, progress) | norms)


def mean(values: NDArray[Any]) -> float:
    return float(values.mean(dtype=np.float64))


def normalized_rows(advantage: Floats) -> Floats:
    """Each row, a minibatch, to zero mean and unit spread."""
    centred = advantage - advantage.mean(1, keepdims=True)
    return centred / (centred.std(1, ddof=1, keepdims=True) + 1e-8)


def as_metrics(values: dict[str, float]) -> Metrics:
    return dict(zip(values, torch.tensor(list(values.values())).unbind(), strict=True))
