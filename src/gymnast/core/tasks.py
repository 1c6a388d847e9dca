"""What envs and agents both know of the tasks of a run: which leaves and which actions each has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

ALL_SOLVED = 0.0  # the goal of a run with several tasks, in relative scores
TASK = "task"  # the leaf of an observation that says which task a row is of


def relative(returns: Any, threshold: float) -> Any:
    """Above the threshold by this much of it: how tasks with different rewards are compared."""
    return (returns - threshold) / (abs(threshold) or 1.0)


@dataclass(frozen=True)
class TaskSpaces:
    """The spaces of several tasks, in their order. `obs`: each one's leaves, as the joint observation names them."""

    names: tuple[str, ...]
    obs: tuple[dict[str, gym.Space[Any]], ...]
    actions: tuple[gym.Space[Any], ...]

    @property
    def alike(self) -> bool:
        """Whether all tasks have the same observations and actions, and so may share every layer."""
        return all(
            own == self.obs[0] and action == self.actions[0] for own, action in zip(self.obs, self.actions, strict=True)
        )

    @property
    def owners(self) -> dict[str, int]:
        """Leaves that only one task fills, and which one that is."""
        return {} if self.alike else {leaf: number for number, own in enumerate(self.obs) for leaf in own}
