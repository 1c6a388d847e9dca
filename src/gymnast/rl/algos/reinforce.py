"""REINFORCE (Williams, 1992): the plain policy gradient on Monte-Carlo returns. See `docs/reinforce.md`.

Only complete episodes are learned from, and nothing is thrown away: what an unfinished episode has so far waits in
`pending` and is joined by its continuation in the next rollout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gymnast.agent import Agent
from gymnast.core.errors import UserError
from gymnast.rl.collector import values_of
from gymnast.rl.learner import Learner, Metrics, explained_variance, normalized
from gymnast.rl.returns import discounted_returns
from gymnast.rl.rollout import Rollout

if TYPE_CHECKING:
    from gymnast.config import ReinforceConfig

Columns = dict[str, Tensor]  # named tensors over the steps of one env's timeline
PENDING_LIMIT = 1_000_000  # steps of one unfinished episode; by then there is no end to wait for


class Reinforce(Learner):
    """One gradient step on every episode that ended in this rollout, from its first step to its last."""

    algo: ReinforceConfig

    def __init__(self, agent: Agent, algo: ReinforceConfig, generator: torch.Generator) -> None:
        super().__init__(agent, algo, generator)
        self.pending: list[Columns] = []  # one an env
        self.mean_return, self.mean_count = 0.0, 0  # the running mean baseline

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        scheduled = self.schedule(progress)
        data = self.complete_episodes(rollout)
        waiting = sum(len(columns["reward"]) for columns in self.pending)
        metrics = scheduled | {
            "train/pending_steps": float(waiting),
            "train/optimizer_resets": float(self.optimizer_resets),
            "train/complete_episodes": 0.0,
        }
        if data is None:
            return metrics
        mask = data.get("mask")
        obs = {key.removeprefix("obs."): tensor for key, tensor in data.items() if key.startswith("obs.")}
        returns, value = data["returns"], values_of(self.agent, obs)
        baseline = self.baseline(returns, value)
        weight = returns if self.algo.target == "returns" else returns - baseline
        if self.algo.normalize_advantage != "off":
            weight = normalized(weight)
        target = returns if self.algo.baseline == "value" else None  # nothing else teaches the critic
        fast = self.fast()
        if fast is None:
            metrics |= self.reference_step(obs, data["action"], mask, weight, target, progress)
        else:
            metrics |= fast.policy_gradient(obs, data["action"], mask, weight, target, progress)
        if self.algo.baseline == "mean":  # moved after use: an estimate that contains its own sample is biased
            self.mean_count += len(returns)
            self.mean_return += (float(returns.mean()) - self.mean_return) * len(returns) / self.mean_count
        return metrics | {
            "train/complete_episodes": data["ended"].sum().float(),
            "train/baseline": baseline.mean(),
            "train/approx_kl": self.kl_since(obs, data["action"], data["logp"], mask),
            "train/explained_variance": explained_variance(value, returns),
        }

    def reference_step(
        self,
        obs: dict[str, Tensor],
        action: Tensor,
        mask: Tensor | None,
        weight: Tensor,
        target: Tensor | None,
        progress: float,
    ) -> dict[str, Tensor]:
        """One step on -mean(weight * logp), the value loss (none without a target) and the entropy."""
        now = self.agent.evaluate(obs, action, mask)
        value_loss = torch.zeros((), device=weight.device) if target is None else self.value_loss(now.value, target)
        loss, losses = self.total_loss(-(weight * now.logp).mean(), value_loss, now.entropy.mean(), progress)
        return losses | self.gradient_step(loss)

    def baseline(self, returns: Tensor, value: Tensor) -> Tensor:
        """What is subtracted from the returns: it lowers the gradient's variance and leaves its mean alone."""
        if self.algo.baseline == "value":
            return value
        return torch.full_like(returns, self.mean_return if self.algo.baseline == "mean" else 0.0)

    def complete_episodes(self, rollout: Rollout) -> Columns | None:
        """Every episode that has ended by now, with its returns; the rest waits. None where none has ended."""
        streams = {f"obs.{key}": tensor for key, tensor in rollout.obs.items()} | {
            "action": rollout.action,
            "logp": rollout.logp,
            "reward": rollout.reward,
            "ended": rollout.ended,
        }
        if rollout.mask is not None:
            streams["mask"] = rollout.mask
        done: list[Columns] = []
        waiting: list[Columns] = []
        for env in range(rollout.n_envs):
            timeline = {name: stream[:, env] for name, stream in streams.items()}
            if self.pending:
                timeline = {name: torch.cat([self.pending[env][name], rows]) for name, rows in timeline.items()}
            ends = torch.nonzero(timeline["ended"]).flatten()
            split = int(ends[-1]) + 1 if len(ends) else 0
            if split:
                episode = {name: rows[:split] for name, rows in timeline.items()}
                episode["returns"] = discounted_returns(episode["reward"], episode["ended"], self.algo.gamma)
                done.append(episode)
            waiting.append({name: rows[split:].clone() for name, rows in timeline.items()})
            if len(waiting[env]["reward"]) > PENDING_LIMIT:
                raise UserError(
                    f"algo.name: reinforce needs episodes that end, and env {env} has gone {PENDING_LIMIT:,} steps "
                    "without an end. Set env.max_episode_steps, or use ppo or a2c."
                )
        self.pending = waiting
        if not done:
            return None
        return {name: torch.cat([columns[name] for columns in done]).to(rollout.device) for name in done[0]}

    def forget_episodes(self) -> None:
        self.pending = []

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super().save_state()
        for env, columns in enumerate(self.pending):
            tensors |= {f"pending/{env}/{name}": rows for name, rows in columns.items()}
        return tensors, values | {"mean_return": self.mean_return, "mean_count": self.mean_count}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        pending = {key: tensor for key, tensor in tensors.items() if key.startswith("pending/")}
        super().load_state({key: tensor for key, tensor in tensors.items() if key not in pending}, values)
        self.mean_return, self.mean_count = values["mean_return"], values["mean_count"]
        self.pending = [{} for _ in {key.split("/")[1] for key in pending}]
        for key, tensor in pending.items():
            _, env, name = key.split("/", 2)
            self.pending[int(env)][name] = tensor
