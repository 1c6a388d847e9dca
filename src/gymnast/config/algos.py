"""The `algo` section: one model an algorithm, told apart by `name`. Names and defaults are stable-baselines3's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gymnast.config.fields import Count, Float, Positive, Rate, Section, Share, Weight
from gymnast.core.schedule import Schedule


def _scope_of_bool(value: Any) -> Any:
    return {True: "batch", False: "off"}[value] if isinstance(value, bool) else value


LearningRate = Annotated[Rate, Field(description="Step size of the optimizer; may be scheduled.")]
Steps = Annotated[Count, Field(description="Steps each env makes between two updates.")]
Gamma = Annotated[Share, Field(description="Discount of future rewards.")]
GaeLambda = Annotated[Share, Field(description="Bias (0) against variance (1) of the advantage estimate.")]
EntCoef = Annotated[Weight, Field(description="Weight of the entropy bonus; may be scheduled.")]
VfCoef = Annotated[Weight, Field(description="Weight of the value loss; may be scheduled.")]
MaxGradNorm = Annotated[Positive, Field(description="Gradients are scaled down to this norm.")]
ValueLoss = Annotated[Literal["mse", "huber"], Field(description="Loss of the value estimate.")]
HuberDelta = Annotated[Positive, Field(description="Error from which the Huber loss grows linearly.")]
OptimizerEps = Annotated[Positive, Field(description="The optimizer's epsilon.")]
NormalizeAdvantage = Annotated[
    Literal["batch", "rollout", "off"],
    BeforeValidator(_scope_of_bool),
    Field(description="Bring advantages to mean 0 and deviation 1 per batch, per rollout, or not (off)."),
]
LrJump = Annotated[
    Annotated[Float, Field(gt=1)] | None,
    Field(description="Forget the optimizer's moments when the rate changes by this factor between two updates."),
]


class _Algo(Section):
    """What every algorithm's settings can tell about themselves."""

    def schedules(self) -> dict[str, Schedule]:
        """Every number that may be scheduled and is set, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if isinstance(value, Schedule)}


class PPOConfig(_Algo):
    """Proximal policy optimisation."""

    name: Literal["ppo"] = Field(default="ppo", description="Algorithm.")
    learning_rate: LearningRate = Schedule.constant(3e-4)
    n_steps: Steps = 2048
    batch_size: Count = Field(default=64, description="Samples a gradient step; must divide n_envs x n_steps.")
    n_epochs: Count = Field(default=10, description="Passes over each rollout.")
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 0.95
    clip_range: Rate = Field(
        default=Schedule.constant(0.2), description="How far an update may move action probabilities; may be scheduled."
    )
    clip_range_vf: Rate | None = Field(default=None, description="The same for the value estimate; null: no clipping.")
    ent_coef: EntCoef = Schedule.constant(0.0)
    vf_coef: VfCoef = Schedule.constant(0.5)
    max_grad_norm: MaxGradNorm = 0.5
    target_kl: Positive | None = Field(
        default=None, description="Stop an update's epochs early when the KL exceeds 1.5 times this."
    )
    normalize_advantage: NormalizeAdvantage = "batch"
    value_loss: ValueLoss = "mse"
    huber_delta: HuberDelta = 1.0
    optimizer_eps: OptimizerEps = 1e-5
    reset_optimizer_on_lr_jump: LrJump = None


class A2CConfig(_Algo):
    """Advantage actor-critic, synchronous."""

    name: Literal["a2c"] = Field(default="a2c", description="Algorithm.")
    learning_rate: LearningRate = Schedule.constant(7e-4)
    n_steps: Steps = 5
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 1.0
    ent_coef: EntCoef = Schedule.constant(0.0)
    vf_coef: VfCoef = Schedule.constant(0.5)
    max_grad_norm: MaxGradNorm = 0.5
    normalize_advantage: NormalizeAdvantage = "off"
    value_loss: ValueLoss = "mse"
    huber_delta: HuberDelta = 1.0
    optimizer: Literal["rmsprop", "adam"] = Field(default="rmsprop", description="Optimizer.")
    optimizer_eps: OptimizerEps = 1e-5
    reset_optimizer_on_lr_jump: LrJump = None


class ReinforceConfig(_Algo):
    """REINFORCE on complete episodes."""

    name: Literal["reinforce"] = Field(default="reinforce", description="Algorithm.")
    learning_rate: LearningRate = Schedule.constant(1e-3)
    n_steps: Steps = 256
    gamma: Gamma = 0.99
    baseline: Literal["none", "mean", "value"] = Field(
        default="value", description="What is subtracted from the returns."
    )
    target: Literal["returns", "advantages"] = Field(
        default="advantages", description="What weighs the log-probabilities."
    )
    normalize_advantage: NormalizeAdvantage = "batch"
    ent_coef: EntCoef = Schedule.constant(0.0)
    vf_coef: VfCoef = Schedule.constant(0.5)
    max_grad_norm: MaxGradNorm = 0.5
    value_loss: ValueLoss = "mse"
    huber_delta: HuberDelta = 1.0
    optimizer_eps: OptimizerEps = 1e-5
    reset_optimizer_on_lr_jump: LrJump = None

    @property
    def gae_lambda(self) -> float:
        """REINFORCE learns from whole returns; advantages of unfinished rollouts are only charted."""
        return 1.0


AlgoConfig = PPOConfig | A2CConfig | ReinforceConfig
ALGO_MODELS: dict[str, type[PPOConfig] | type[A2CConfig] | type[ReinforceConfig]] = {
    "ppo": PPOConfig,
    "a2c": A2CConfig,
    "reinforce": ReinforceConfig,
}
