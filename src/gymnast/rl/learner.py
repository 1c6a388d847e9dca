"""What the algorithms share: the optimizer, its schedule, the gradient step, and how they are saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gymnast.agent import Agent
from gymnast.agent.nets.dense_net import fast_net
from gymnast.rl.fast import FastSteps
from gymnast.rl.optimizer import Adam, Optimizer
from gymnast.rl.rollout import Rollout

if TYPE_CHECKING:
    from gymnast.config import AlgoConfig

Metrics = dict[str, Tensor | float]  # tensors where asking for the number would wait for a device


class Learner:
    """Updates an agent from rollouts. Subclasses say how in `update`, without a host sync inside."""

    def __init__(self, agent: Agent, algo: AlgoConfig, generator: torch.Generator) -> None:
        self.agent, self.algo, self.generator = agent, algo, generator
        self.parameters = list(agent.parameters())
        self.parts = agent.parts()
        self.rate: float | None = None  # of the previous update
        self.optimizer_resets = 0
        self.optimizer = self.make_optimizer()
        self._fast: FastSteps | None = None

    def make_optimizer(self) -> Optimizer:
        return Adam(self.parameters, self.algo.optimizer_eps)

    def fast(self) -> FastSteps | None:
        """The fast way to make this learner's gradient steps; None where the agent has to go the reference's way."""
        net = fast_net(self.agent)
        if net is None:
            return None
        if self._fast is None or self._fast.net is not net:
            self._fast = FastSteps(net, self.algo, self.optimizer)
        return self._fast

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        """Learns from a rollout; returns scalars named as in the metric catalogue."""
        raise NotImplementedError

    def schedule(self, progress: float) -> Metrics:
        """Sets the learning rate for this update and reports every scheduled value."""
        values = {name: schedule.value(progress) for name, schedule in self.algo.schedules().items()}
        rate = values["learning_rate"]
        limit = self.algo.reset_optimizer_on_lr_jump
        if limit is not None and self.rate and rate and max(rate / self.rate, self.rate / rate) > limit:
            self.optimizer.state.clear()
            self.optimizer_resets += 1
        self.rate = self.optimizer.lr = rate
        return {f"train/{name}": value for name, value in values.items()}

    def value_loss(self, value: Tensor, target: Tensor) -> Tensor:
        if self.algo.value_loss == "huber":
            return F.huber_loss(value, target, delta=self.algo.huber_delta)
        return F.mse_loss(value, target)

    def total_loss(
        self, policy_loss: Tensor, value_loss: Tensor, entropy: Tensor, progress: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Policy, value and entropy terms weighed together, with each term's metrics, raw and as weighed."""
        vf_coef, ent_coef = self.algo.vf_coef.value(progress), self.algo.ent_coef.value(progress)
        loss = policy_loss + vf_coef * value_loss - ent_coef * entropy
        metrics = {
            "train/loss": loss,
            "train/policy_gradient_loss": policy_loss,
            "train/value_loss": value_loss,
            "train/entropy_loss": -entropy,
            "train/entropy": entropy,
            "train/value_loss_scaled": vf_coef * value_loss,
            "train/entropy_loss_scaled": -ent_coef * entropy,
        }
        return loss, {name: value.detach() for name, value in metrics.items()}

    def gradient_step(self, loss: Tensor) -> dict[str, Tensor]:
        """One step of the optimizer. The norms reported are those before clipping, for each part and for all."""
        self.optimizer.zero_grad()
        loss.backward()
        squares: dict[str, Tensor] = {}
        for part, parameters in self.parts.items():
            gradients = [p.grad for p in parameters if p.grad is not None]
            if gradients:
                squares[part] = torch.stack(torch._foreach_norm(gradients)).square().sum()
        norm = torch.stack(list(squares.values())).sum().sqrt()
        # The same rule as torch's clip_grad_norm_, on the norm that is computed anyway.
        scale = (self.algo.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_([p.grad for p in self.parameters if p.grad is not None], scale)
        self.optimizer.step()
        return {
            "train/grad_norm": norm,
            "train/grad_clipped_fraction": (norm > self.algo.max_grad_norm).float(),
        } | {f"train/grad_norm/{part}": square.sqrt() for part, square in squares.items()}

    @torch.no_grad()
    def kl_since(self, obs: dict[str, Tensor], action: Tensor, logp: Tensor, mask: Tensor | None) -> Tensor:
        """How far the policy has moved from the one that gave `logp` (Schulman's low-variance estimate)."""
        net = fast_net(self.agent)
        if net is None:
            now = self.agent.evaluate(obs, action, mask).logp
        else:
            masks = None if mask is None else mask.numpy()
            now = torch.from_numpy(net.score(obs[net.key].numpy(), action.numpy(), masks)[0])
        log_ratio = now - logp
        return (log_ratio.exp() - 1 - log_ratio).mean()

    def forget_episodes(self) -> None:
        """The envs begin anew: episodes under way will not go on. Only matters where a learner waits for their end."""

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values that `load_state` needs to go on exactly."""
        tensors = {
            f"{i}.{name}": value
            for i, parameter in enumerate(self.parameters)
            for name, value in self.optimizer.state.get(parameter, {}).items()
        }
        return tensors, {"rate": self.rate, "optimizer_resets": self.optimizer_resets}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.rate, self.optimizer_resets = values["rate"], values["optimizer_resets"]
        for key, value in tensors.items():
            number, name = key.split(".")
            parameter = self.parameters[int(number)]
            self.optimizer.state.setdefault(parameter, {})[name] = value.to(parameter.device).clone()


def normalized(advantage: Tensor) -> Tensor:
    """Zero mean, unit spread. A single sample has no spread and is left as it is."""
    return (advantage - advantage.mean()) / (advantage.std() + 1e-8) if len(advantage) > 1 else advantage


def explained_variance(value: Tensor, returns: Tensor) -> Tensor | float:
    """1: values predict returns exactly; 0: no better than their mean; below: worse. NaN where returns do not vary."""
    error, spread = torch.stack((returns - value, returns)).var(1)
    explained = torch.where(spread > 0, 1 - error / spread, torch.nan)
    return float(explained) if explained.device.type == "cpu" else explained


def mean_metrics(rows: list[dict[str, Tensor]]) -> Metrics:
    """The mean of each metric over all gradient steps, not the last one's."""
    if not rows:
        return {}
    names = list(rows[0])
    table = torch.stack([torch.stack([row[name].detach() for name in names]) for row in rows]).mean(0)
    return dict(zip(names, table, strict=True))
