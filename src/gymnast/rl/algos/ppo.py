"""Proximal policy optimisation (Schulman et al., 2017). `docs/ppo.md` explains every line and metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gymnast.rl.learner import Learner, Metrics, explained_variance, mean_metrics, normalized
from gymnast.rl.rollout import Batch, Rollout, minibatches

if TYPE_CHECKING:
    from gymnast.config import PPOConfig


class PPO(Learner):
    """Several epochs of clipped policy-gradient steps on each rollout."""

    algo: PPOConfig

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        scheduled = self.schedule(progress)
        data = rollout.flat()
        if self.algo.normalize_advantage == "rollout":
            data.advantage = normalized(data.advantage)
        fast = self.fast()
        learned: Mapping[str, Tensor | float]
        if fast is not None and len(data.logp) % self.algo.batch_size == 0:
            learned = fast.ppo(self.algo, data, progress, self.generator)
        else:
            learned = self.epochs(data, progress)
        return {
            **scheduled,
            **learned,
            "train/explained_variance": explained_variance(data.value, data.returns),
            "train/optimizer_resets": float(self.optimizer_resets),
        }

    def epochs(self, data: Batch, progress: float) -> Metrics:
        """The reference: what `fast.ppo` is tested against, and what agents that it cannot serve are trained by."""
        seen: list[dict[str, Tensor]] = []
        steps: list[dict[str, Tensor]] = []
        epochs, kl_stop = 0, False
        for _ in range(self.algo.n_epochs):
            for batch in minibatches(data, self.algo.batch_size, self.generator):
                loss, metrics = self.loss(batch, progress)
                seen.append(metrics)
                # Asking for the number waits for the device, so it is done only where the config sets a limit.
                if self.algo.target_kl and float(metrics["train/approx_kl"]) > 1.5 * self.algo.target_kl:
                    kl_stop = True
                    break
                steps.append(self.gradient_step(loss))
            if kl_stop:
                break
            epochs += 1
        return (
            mean_metrics(seen)
            | mean_metrics(steps)
            | {
                "train/ratio_first": seen[0]["train/ratio"],
                "train/epochs": float(epochs),
                "train/kl_stop": float(kl_stop),
            }
        )

    def loss(self, batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The clipped objective on one minibatch, and what there is to see in it."""
        clip = self.algo.clip_range.value(progress)
        advantage = normalized(batch.advantage) if self.algo.normalize_advantage == "batch" else batch.advantage
        now = self.agent.evaluate(batch.obs, batch.action, batch.mask)
        log_ratio = now.logp - batch.logp
        ratio = log_ratio.exp()
        policy_loss = -torch.minimum(advantage * ratio, advantage * ratio.clamp(1 - clip, 1 + clip)).mean()
        value, value_metrics = self.clip_value(now.value, batch.value, progress)
        loss, metrics = self.total_loss(
            policy_loss, self.value_loss(value, batch.returns), now.entropy.mean(), progress
        )
        with torch.no_grad():
            metrics |= value_metrics | {
                "train/approx_kl": (ratio - 1 - log_ratio).mean(),
                "train/clip_fraction": ((ratio - 1).abs() > clip).float().mean(),
                "train/ratio": ratio.mean(),
            }
        return loss, metrics

    def clip_value(self, value: Tensor, old: Tensor, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Keeps the new value within clip_range_vf of the one at collection, where the config asks for it."""
        if self.algo.clip_range_vf is None:
            return value, {}
        limit = self.algo.clip_range_vf.value(progress)
        change = value - old
        beyond = (change.detach().abs() > limit).float().mean()
        return old + change.clamp(-limit, limit), {"train/clip_fraction_vf": beyond}
