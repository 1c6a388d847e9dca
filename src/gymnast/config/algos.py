"""The `algo` section: settings that algorithms share. Names and defaults are stable-baselines3's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gymnast.config.fields import Float, Int, Named, Positive, Rate, Section, Share, Weight
from gymnast.config.fields import RuleProblem as RuleProblem
from gymnast.core.registry import ALGOS
from gymnast.core.schedule import Schedule

if TYPE_CHECKING:
    from gymnast.config.schema import RunConfig


def _scope_of_bool(value: Any) -> Any:
    return {True: "batch", False: "off"}[value] if isinstance(value, bool) else value


LearningRate = Annotated[Rate, Field(description="Step size of the optimizer; may be scheduled.")]
CriticRate = Annotated[
    Rate | None, Field(description="The critic's step size, where it has a network of its own; null: the same.")
]
Steps = Annotated[Int, Field(ge=1, le=2**24, description="Steps each env makes between two updates.")]
Gamma = Annotated[
    Share,
    Field(description="Discount of future rewards, once a decision: also where an action is repeated for many steps."),
]
GaeLambda = Annotated[Share, Field(description="Bias (0) against variance (1) of the advantage estimate.")]
EntCoef = Annotated[Weight, Field(description="Weight of the entropy bonus; may be scheduled.")]
VfCoef = Annotated[Weight, Field(description="Weight of the value loss; may be scheduled.")]
MaxGradNorm = Annotated[Positive, Field(description="Gradients are scaled down to this norm.")]
ValueLoss = Annotated[Literal["mse", "huber"], Field(description="Loss of the value estimate.")]
HuberDelta = Annotated[Positive, Field(description="Error from which the Huber loss grows linearly.")]
WeightDecay = Annotated[
    Annotated[Float, Field(ge=0)],
    Field(description="Pull of all weights to 0: with adamw times the rate, else as a part of the gradient."),
]
OptimizerEps = Annotated[Positive, Field(description="The optimizer's epsilon.")]
NormalizeAdvantage = Annotated[
    Literal["batch", "rollout", "off"],
    BeforeValidator(_scope_of_bool),
    Field(description="Bring advantages to mean 0 and standard deviation 1 per batch, per rollout, or not (off)."),
]
LrJump = Annotated[
    Annotated[Float, Field(gt=1)] | None,
    Field(description="Forget the optimizer's moments when the rate changes by this factor between two updates."),
]


class AlgoSettings(Section):
    """What every algorithm's settings have and can tell about themselves. The rest lies in the algorithm's own file."""

    name: str = Field(description="Algorithm.")
    extensions: list[Named] = Field(
        [], description="Additions to the algorithm, by name: exploration bonuses, auxiliary losses."
    )

    if TYPE_CHECKING:  # what the rest of the package reads of any of them; whoever knows an algorithm reads more
        n_steps: int
        gamma: float
        max_grad_norm: float
        normalize_advantage: str

        def __getattr__(self, setting: str) -> Any: ...

    @property
    def optimizer_name(self) -> str:
        return "adam"

    @property
    def optimizer_numbers(self) -> dict[str, Any]:
        """What the optimizer is made with."""
        return {"eps": self.optimizer_eps}

    @property
    def trains_critic(self) -> bool:
        return True

    @property
    def kl_limit(self) -> float | None:
        """The KL at which an update ends early; None: none."""
        return None

    def schedules(self) -> dict[str, Schedule]:
        """Every number that may be scheduled and is set, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if isinstance(value, Schedule)}

    def passes(self, rollout_steps: int) -> tuple[int, int]:
        """How often each sample is learned from, and samples a gradient step."""
        return 1, rollout_steps

    def problems(self, config: RunConfig) -> list[RuleProblem]:
        """What is wrong between these settings and others of the run, in addition to the rules for all algorithms."""
        return []


def settings_of(name: str) -> type[AlgoSettings]:
    """The settings of an algorithm by its name: the one way from a config to an algorithm's file."""
    settings: type[AlgoSettings] = ALGOS.get(name).Settings
    return settings
