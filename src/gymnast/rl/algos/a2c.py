"""Advantage actor-critic, synchronous (Mnih et al., 2016): one gradient step on each rollout. See `docs/a2c.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from gymnast.config import algos as settings
from gymnast.core.schedule import Schedule
from gymnast.rl.learner import Learner, Metrics, explained_variance

if TYPE_CHECKING:
    from gymnast.rl.rollout import Rollout


class A2CConfig(settings.AlgoSettings):
    """Advantage actor-critic, synchronous."""

    name: Literal["a2c"] = Field("a2c", description="Algorithm.")
    learning_rate: settings.LearningRate = Schedule.constant(7e-4)
    critic_learning_rate: settings.CriticRate = None
    n_steps: settings.Steps = 5
    gamma: settings.Gamma = 0.99
    gae_lambda: settings.GaeLambda = 1.0
    ent_coef: settings.EntCoef = Schedule.constant(0.0)
    vf_coef: settings.VfCoef = Schedule.constant(0.5)
    max_grad_norm: settings.MaxGradNorm = 0.5
    normalize_advantage: settings.NormalizeAdvantage = "off"
    value_loss: settings.ValueLoss = "mse"
    huber_delta: settings.HuberDelta = 1.0
    optimizer: Literal["rmsprop", "adam", "adamw"] = Field("rmsprop", description="Optimizer.")
    optimizer_eps: settings.OptimizerEps = 1e-5
    weight_decay: settings.WeightDecay = 0.0
    reset_optimizer_on_lr_jump: settings.LrJump = None

    @property
    def optimizer_name(self) -> str:
        return self.optimizer

    @property
    def optimizer_numbers(self) -> dict[str, Any]:
        return {"eps": self.optimizer_eps, "weight_decay": self.weight_decay}


class A2C(Learner):
    """The plain policy gradient with a critic: PPO's first step, and no more."""

    Settings = A2CConfig
    algo: A2CConfig

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        batch = self.batch(rollout)
        return {
            **self.schedule(progress),
            **self.policy_gradient(batch, self.weighed(batch["advantage"], batch), batch["returns"], progress),
            "train/approx_kl": self.kl_since(batch),
            "train/explained_variance": explained_variance(batch["value"], batch["returns"]),
        }
