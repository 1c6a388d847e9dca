"""REINFORCE (Williams, 1992): the plain policy gradient on Monte-Carlo returns. See `docs/reinforce.md`.

Only complete episodes are learned from, and nothing is thrown away: what an unfinished episode has so far waits in
`pending` and is joined by its continuation in the next rollout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from gymnast.agent.batch import OBS, VALUE, Batch
from gymnast.config import algos as settings
from gymnast.core.errors import UserError
from gymnast.core.lazy import torch
from gymnast.core.schedule import Schedule
from gymnast.rl.learner import Learner, Metrics, explained_variance, group
from gymnast.rl.returns import discounted_returns

if TYPE_CHECKING:
    from torch import Tensor

    from gymnast.rl.rollout import Rollout

PENDING_LIMIT = 1_000_000  # steps of one unfinished episode; by then there is no end to wait for
Columns = dict[str, "Tensor"]  # named tensors over the steps of one env's timeline


class ReinforceConfig(settings.AlgoSettings):
    """REINFORCE on complete episodes."""

    name: Literal["reinforce"] = Field("reinforce", description="Algorithm.")
    learning_rate: settings.LearningRate = Schedule.constant(1e-3)
    critic_learning_rate: settings.CriticRate = None
    n_steps: settings.Steps = 256
    gamma: settings.Gamma = 0.99
    baseline: Literal["none", "mean", "value"] = Field("value", description="What is subtracted from the returns.")
    target: Literal["returns", "advantages"] = Field("advantages", description="What weighs the log-probabilities.")
    normalize_advantage: settings.NormalizeAdvantage = "batch"
    ent_coef: settings.EntCoef = Schedule.constant(0.0)
    vf_coef: settings.VfCoef = Schedule.constant(0.5)
    max_grad_norm: settings.MaxGradNorm = 0.5
    value_loss: settings.ValueLoss = "mse"
    huber_delta: settings.HuberDelta = 1.0
    optimizer_eps: settings.OptimizerEps = 1e-5
    reset_optimizer_on_lr_jump: settings.LrJump = None

    # Advantages are only charted: whole returns where an episode ends in the rollout, values beyond its end elsewhere.
    gae_lambda: ClassVar[float] = 1.0

    @property
    def trains_critic(self) -> bool:
        return self.baseline == "value"

    def problems(self, config: Any) -> list[settings.RuleProblem]:
        found = super().problems(config)
        if self.target == "advantages" and self.baseline == "none":
            text = "advantages are returns minus a baseline, and algo.baseline is none."
            fix = "Use algo.target=returns, or algo.baseline=mean or value."
            found.append(settings.RuleProblem(("algo.target", "algo.baseline"), f"{text} {fix}"))
        if config.agent.memory is not None:
            text = f"reinforce learns from whole episodes, not from sequences with agent.memory={config.agent.memory}."
            found.append(settings.RuleProblem(("algo.name", "agent.memory"), f"{text} Use ppo or a2c."))
        return found


class Reinforce(Learner):
    """One gradient step on every episode that ended in this rollout, from its first step to its last."""

    Settings = ReinforceConfig
    metrics = """
        train/baseline: {after: train/optimizer_resets, style: general, precision: 4, detail: true,
          meaning: "Mean of what was subtracted from the returns."}
        train/complete_episodes: {after: train/optimizer_resets, style: fixed, precision: 1, low: 0, detail: true,
          meaning: "Episodes REINFORCE learned from in this update."}
        train/pending_steps: {after: train/optimizer_resets, style: fixed, precision: 0, unit: steps, low: 0,
          detail: true,
          meaning: "Steps of unfinished episodes that wait for the next update."}
    """
    algo: ReinforceConfig
    pending: list[Columns]
    mean_return, mean_count = 0.0, 0  # the running mean baseline

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pending = []  # one an env

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        metrics = self.schedule(progress)
        data = self.complete_episodes(rollout)
        waiting = sum(len(columns["reward"]) for columns in self.pending)
        metrics |= {"train/pending_steps": float(waiting), "train/complete_episodes": 0.0}
        if data is None:
            return metrics
        returns = data.pop("returns")
        ended, _ = data.pop("ended"), data.pop("reward")
        batch = Batch(data)
        obs = {key: rows.numpy() for key, rows in batch.obs.items()}
        value = self.net.values(obs, {}, np.zeros(len(batch), np.bool_))[VALUE]
        baseline = self.baseline(returns, value)
        weight = self.weighed(returns if self.algo.target == "returns" else returns - baseline, batch)
        target = returns if self.algo.trains_critic else None  # nothing else teaches the critic
        metrics |= self.policy_gradient(batch, weight, target, progress)
        if self.algo.baseline == "mean":  # moved after use: an estimate that contains its own sample is biased
            self.mean_count += len(returns)
            self.mean_return += (float(returns.mean()) - self.mean_return) * len(returns) / self.mean_count
        return metrics | {
            "train/complete_episodes": ended.sum().float(),
            "train/baseline": baseline.mean(),
            "train/approx_kl": self.kl_since(batch),
            "train/explained_variance": explained_variance(value, returns),
        }

    def baseline(self, returns: Tensor, value: Tensor) -> Tensor:
        """What is subtracted from the returns: it lowers the gradient's variance and leaves its mean alone."""
        if self.algo.baseline == "value":
            return value
        return torch.full_like(returns, self.mean_return if self.algo.baseline == "mean" else 0.0)

    def complete_episodes(self, rollout: Rollout) -> Columns | None:
        """Every episode that has ended by now, with its returns; the rest waits. None where none has ended."""
        wanted = ("action", "logp", "reward", "mask", *self.extension_columns)
        names = [name for name in rollout.streams if name.startswith(OBS) or name in wanted]
        streams = {name: rollout[name] for name in names} | {"ended": rollout.ended}
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
        return {name: torch.cat([columns[name] for columns in done]) for name in done[0]}

    def forget_episodes(self) -> None:
        super().forget_episodes()
        self.pending = []

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super().save_state()
        for env, columns in enumerate(self.pending):
            tensors |= {f"pending/{env}/{name}": rows for name, rows in columns.items()}
        return tensors, values | {"mean_return": self.mean_return, "mean_count": self.mean_count}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any], optimizer: bool, episodes: bool) -> None:
        super().load_state(tensors, values, optimizer, episodes)
        # missing where the run that is resumed was another algorithm's
        self.mean_return, self.mean_count = values.get("mean_return", 0.0), values.get("mean_count", 0)
        pending = group(tensors, "pending") if episodes else {}
        self.pending = [group(pending, str(env)) for env in range(len({key.split("/")[0] for key in pending}))]
        for columns in self.pending:
            if columns.keys() != self.pending[0].keys() or len({len(rows) for rows in columns.values()}) > 1:
                raise ValueError("the steps of an unfinished episode in it are not of one length")
