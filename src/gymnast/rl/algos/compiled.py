"""The slopes of two losses, compiled, for networks that take arrays: PPO's and the plain policy gradient's.

`PPO.loss` and `policy_gradient_losses` say what is computed; `tests/unit/test_dense_net.py` holds this to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from gymnast.agent.batch import VALUE, Batch, Outputs
from gymnast.agent.nets import kernels
from gymnast.agent.nets.dense_net import DenseNet
from gymnast.rl.learner import Learner, Metrics, loss_metrics

if TYPE_CHECKING:
    from gymnast.rl.algos.ppo import PPO


class PPOKernel:
    """Metrics come from the sums over all minibatches, which are of one size."""

    def __init__(self, ppo: PPO, progress: float) -> None:
        algo = ppo.algo
        self.net, self.size = cast(DenseNet, ppo.net), algo.batch_size
        self.vf_coef, self.ent_coef = algo.vf_coef.value(progress), algo.ent_coef.value(progress)
        limit = None if algo.clip_range_vf is None else algo.clip_range_vf.value(progress)
        self.clips_value = limit is not None
        bounds = algo.clip_range.value(progress), -1 if limit is None else limit, huber_delta(algo), self.vf_coef
        self.numbers = [np.float32(number) for number in (*bounds, -self.ent_coef / self.size)]
        self.normalizes = algo.normalize_advantage == "batch" and self.size > 1
        self.seen: list[NDArray[np.float64]] = []

    def slopes(self, out: Outputs, batch: Batch) -> Outputs:
        sums, advantage, slopes = np.zeros(kernels.SUMS), batch["advantage"], self.net.slopes()
        if self.normalizes:
            kernels.normalize_rows(advantage.reshape(1, -1))
        kernels.ppo_slopes(
            out.logp,
            batch["logp"],
            out.entropy,
            advantage,
            out.values[VALUE],
            batch["value"],
            batch["returns"],
            *self.numbers,
            slopes.logp,
            slopes.entropy,
            slopes.values[VALUE],
            sums,
        )
        self.seen.append(sums)
        return slopes

    def last(self, metric: str) -> float:
        assert metric == "train/approx_kl"
        return float(self.seen[-1][kernels.KL]) / self.size

    def metrics(self) -> Metrics:
        means = (np.stack(self.seen).mean(0) / self.size).tolist()
        found: Metrics = loss_metrics(
            -means[kernels.GAIN], means[kernels.VALUE_LOSS], means[kernels.ENTROPY], self.vf_coef, self.ent_coef
        )
        if self.clips_value:
            found["train/clip_fraction_vf"] = means[kernels.VALUE_CLIPPED]
        return found | {
            "train/approx_kl": means[kernels.KL],
            "train/clip_fraction": means[kernels.CLIPPED],
            "train/ratio": means[kernels.RATIO],
            "train/ratio_first": float(self.seen[0][kernels.RATIO]) / self.size,
        }


class PolicyGradientKernel:
    def __init__(self, learner: Learner, progress: float) -> None:
        self.net, self.algo = cast(DenseNet, learner.net), learner.algo
        self.vf_coef, self.ent_coef = (c.value(progress) for c in (self.algo.vf_coef, self.algo.ent_coef))
        self.found: Metrics = {}

    def slopes(self, out: Outputs, batch: Batch) -> Outputs:
        weight, slopes = batch["weight"], self.net.slopes()
        returns = batch.columns.get("target", weight[:0])
        numbers = huber_delta(self.algo), self.vf_coef, -self.ent_coef / len(batch)
        value_loss = kernels.policy_gradient_slopes(
            weight,
            out.values[VALUE],
            returns,
            *(np.float32(number) for number in numbers),
            slopes.logp,
            slopes.entropy,
            slopes.values[VALUE],
        )
        policy_loss, entropy = -_mean(weight * out.logp), _mean(out.entropy)
        self.found = loss_metrics(policy_loss, value_loss, entropy, self.vf_coef, self.ent_coef)
        return slopes if "target" in batch.columns else slopes._replace(values={VALUE: None})

    def metrics(self) -> Metrics:
        return self.found


def huber_delta(algo: Any) -> float:
    """Negative where the loss is the squared error."""
    return float(algo.huber_delta) if algo.value_loss == "huber" else -1.0


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean(dtype=np.float64))
