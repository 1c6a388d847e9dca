"""What goes into predict() and comes out of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.api.arguments import WrongArgument
from gymnast.envs.types import Obs


class DiscreteAction(np.ndarray[Any, Any]):
    """An array without axes, as stable-baselines3 gives, which in addition finds its entry in a dict, as numbers do:
    transition tables like FrozenLake's are dicts of actions."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.item())


def one_action(actions: NDArray[Any]) -> NDArray[Any]:
    """The first of several."""
    return actions[0] if actions.ndim > 1 else actions[:1].reshape(()).view(DiscreteAction)


def refuse_nan(batch: Obs) -> None:
    """A network would make an action of it all the same, and a wrong one."""
    for name, array in batch.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            where = np.argwhere(np.isnan(array))[0].tolist()
            raise WrongArgument(
                f"predict(): the observation has NaN in {name!r}, first at row {where[0]}, {where[1:]}."
            )
