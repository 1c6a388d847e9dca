"""Additions to an algorithm: exploration bonuses, auxiliary losses, models learned on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gymnast.config.fields import Section
from gymnast.core.registry import EXTENSIONS

if TYPE_CHECKING:
    from torch import Tensor

    from gymnast.agent.batch import Batch, Outputs
    from gymnast.config import RunConfig
    from gymnast.rl.learner import Metrics
    from gymnast.rl.rollout import Rollout, Stream


class Extension:
    """Called at four points: `reward` before advantages are computed, `loss` on each minibatch, `step` after each
    update, and `save_state` / `load_state`. Each does nothing unless a subclass says otherwise."""

    name: ClassVar[str]
    Settings: ClassVar[type[Section]] = Section
    metrics: ClassVar[str] = ""  # that it reports, as in `Learner.metrics`
    streams: ClassVar[dict[str, Stream]] = {}  # what rollouts store for it
    values: ClassVar[tuple[str, ...]] = ()  # names of further values that the agent estimates
    adds_loss: ClassVar[bool] = False  # whether `loss` counts

    def __init__(self, settings: Any, config: RunConfig) -> None:
        self.settings, self.config = settings, config

    def reward(self, rollout: Rollout) -> Metrics:
        """May change the learner's reward, in place."""
        return {}

    def loss(self, out: Outputs, batch: Batch) -> Tensor:
        """A term of the loss, as an expression of the agent's outputs."""
        raise NotImplementedError

    def step(self, rollout: Rollout) -> Metrics:
        """Its own learning, once a rollout."""
        return {}

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        pass


def make_extensions(config: RunConfig) -> list[Extension]:
    kinds = [(EXTENSIONS.get(spec.name), spec.kwargs) for spec in config.algo.extensions]
    return [kind(kind.Settings.model_validate(settings), config) for kind, settings in kinds]
