"""Parts of the training loop, to be looked at by the names that stable-baselines3 has for them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gymnast.agent.batch import VALUE
from gymnast.core.errors import Lacking, did_you_mean
from gymnast.rl.returns import returns_of

if TYPE_CHECKING:
    from gymnast.api.model import Model

STREAMS = {
    "rewards": "reward",
    "values": VALUE,
    "log_probs": "logp",
    "advantages": "advantage",
    "returns": returns_of(VALUE),
    "episode_starts": "starts",
}


class RolloutView:
    """The rollout that was collected last, [steps, envs, ...]; arrays of their own, which nothing learns from.

    `advantages` and `returns` are there once the rollout was learned from: NaN in on_rollout_end().
    """

    def __init__(self, model: Model) -> None:
        self._model, self._rollout = model, model.session.rollout
        self.buffer_size, self.n_envs = self._rollout.n_steps, self._rollout.n_envs
        self.observation_space, self.action_space = model.observation_space, model.action_space

    @property
    def observations(self) -> Any:
        """As the agent reads them: pictures have their channels first."""
        leaves = {name: tensor.numpy().copy() for name, tensor in self._rollout.obs.items()}
        return leaves["obs"] if set(leaves) == {"obs"} else leaves

    @property
    def actions(self) -> NDArray[Any]:
        """As the agent chose them: squashed ones in -1..1, others before they are clipped to their bounds."""
        actions = self._rollout["action"].numpy().copy()
        return np.tanh(actions) if self._model.config.agent.squash else actions

    def __getattr__(self, name: str) -> Any:
        if name in STREAMS:
            return self._rollout[STREAMS[name]].numpy().copy()
        known = ["observations", "actions", *STREAMS, "buffer_size", "n_envs"]
        raise Lacking(
            f"rollout_buffer has no {name!r}.{did_you_mean(name, known)} It shows the last rollout and cannot be "
            f"changed; it has {', '.join(known)}."
        )


def episode_infos(model: Model) -> deque[dict[str, float]]:
    """Return and length of the last episodes, the oldest first."""
    meter = model.session.meter
    return deque(({"r": each.raw_return, "l": each.length} for each in meter.finished), maxlen=meter.window)


def episode_successes(model: Model) -> deque[bool]:
    """Whether each of the last episodes reached its goal, where the env says so by info["is_success"]."""
    meter = model.session.meter
    return deque((each.success for each in meter.finished if each.success is not None), maxlen=meter.window)
