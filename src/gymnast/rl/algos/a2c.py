"""Advantage actor-critic, synchronous (Mnih et al., 2016): one gradient step on each rollout. See `docs/a2c.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from gymnast.rl.learner import Learner, Metrics, explained_variance, normalized
from gymnast.rl.optimizer import Optimizer, RMSprop
from gymnast.rl.rollout import Batch, Rollout

if TYPE_CHECKING:
    from gymnast.config import A2CConfig


class A2C(Learner):
    """The plain policy gradient with a critic: PPO's first step, and no more."""

    algo: A2CConfig

    def make_optimizer(self) -> Optimizer:
        if self.algo.optimizer == "adam":
            return super().make_optimizer()
        return RMSprop(self.parameters, self.algo.optimizer_eps)

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        scheduled = self.schedule(progress)
        data = rollout.flat()
        if self.algo.normalize_advantage != "off":
            data.advantage = normalized(data.advantage)
        fast = self.fast()
        learned: Mapping[str, Tensor | float]
        if fast is None:
            loss, metrics = self.loss(data, progress)
            learned = metrics | self.gradient_step(loss)
        else:
            learned = fast.policy_gradient(data.obs, data.action, data.mask, data.advantage, data.returns, progress)
        return {
            **scheduled,
            **learned,
            "train/approx_kl": self.kl_since(data.obs, data.action, data.logp, data.mask),
            "train/explained_variance": explained_variance(data.value, data.returns),
            "train/optimizer_resets": float(self.optimizer_resets),
        }

    def loss(self, batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        now = self.agent.evaluate(batch.obs, batch.action, batch.mask)
        return self.total_loss(
            -(batch.advantage * now.logp).mean(),
            self.value_loss(now.value, batch.returns),
            now.entropy.mean(),
            progress,
        )
