"""A vector of envs that the user made with another library: stepped as it is, through stable-baselines3's interface."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs.engines.buffers import Buffers, refuse_bad
from gymnast.envs.engines.counted import Counted
from gymnast.envs.sampling import spaces_of
from gymnast.envs.spaces import scalars
from gymnast.envs.types import EpisodeRecord, StepBatch

if TYPE_CHECKING:
    from gymnast.config import EnvConfig


@dataclass(frozen=True)
class GivenVector:
    """Stands where a function that makes one env would: there is one vector, and it is the user's to close."""

    vector: (
        Any  # num_envs, observation_space, action_space, seed(), reset() -> obs, step() -> obs, rewards, dones, infos
    )

    def __call__(self) -> Any:
        raise UserError(f"{type(self.vector).__name__} is a vector of envs and makes no single one.")

    def open(self, cfg: EnvConfig) -> GivenEngine:
        for key in ("wrappers", "max_episode_steps", "action_masks", "forbid"):
            if getattr(cfg, key):
                raise UserError(
                    f"env.{key}: is for envs that Gymnast makes, and {type(self.vector).__name__} is made already. "
                    "Wrap its envs before, or make them with gymnast.make_vec_env."
                )
        return GivenEngine(self.vector)


class GivenEngine(Counted):
    """Scores are those of a Monitor where there is one (`info["episode"]`), else the sums of the rewards it gives."""

    engine = "given"
    exact_resume = False

    def __init__(self, vector: Any) -> None:
        super().__init__(type(vector).__name__, vector.num_envs, vector.observation_space, vector.action_space)
        self._vector, self._monitored = vector, is_monitored(vector)
        self._buffers = Buffers.allocate(self._layout, self.n_envs, None)

    def reset(self, seed: int) -> StepBatch:
        self._seed = seed & 0x7FFF_FFFF
        self._vector.seed(self._seed)
        self._seed_spaces()
        self._episodes.fill(0)
        self._lengths.fill(0)
        self._raw_returns.fill(0.0)
        self._buffers.clear()
        self._write(self._vector.reset())
        return self._buffers.batch([])

    def _seed_spaces(self) -> None:
        """What its envs sample from their spaces follows from the seed too, where they are objects in this process."""
        vector, innermost = self._vector, getattr(self._vector, "unwrapped", self._vector)
        inner = [space for env in vars(innermost).get("envs", ()) for space in spaces_of(env)]
        for number, space in enumerate([vector.observation_space, vector.action_space, *inner]):
            space.seed(derive_seed(self._seed, "space", number))

    def step(self, actions: NDArray[Any]) -> StepBatch:
        buffers = self._buffers
        self._taken = self._actions.batch(actions, self.n_envs) + self._actions.start
        observations, rewards, dones, infos = self._vector.step(self._taken)
        self._write(observations)
        buffers.reward[:] = rewards
        self._lengths += 1
        self._raw_returns += rewards
        buffers.terminated[:] = dones
        buffers.truncated.fill(False)
        episodes: list[EpisodeRecord] = []
        for row in np.flatnonzero(dones).tolist():
            episodes += self._end(row, infos[row])
        buffers.refuse_nonfinite(self._who)
        return buffers.batch(episodes)

    def _write(self, observations: Any) -> None:
        for name, array in self._layout.to_batch(observations)[0].items():
            if len(array) != self.n_envs:
                raise EnvFailure(f"{self.name}: gave {len(array)} observations of {self.n_envs} envs.")
            self._buffers.obs[name][:] = array

    def _end(self, row: int, info: dict[str, Any]) -> list[EpisodeRecord]:
        """The record of an episode; none where a Monitor says that the game goes on: a life was lost."""
        buffers = self._buffers
        last = info.get("terminal_observation")
        if last is None:  # nothing to estimate the rest of the episode from
            last_leaves = {name: array[row] for name, array in buffers.obs.items()}
        else:
            last_leaves = {name: array[0] for name, array in self._layout.to_batch(last)[0].items()}
            buffers.truncated[row] = bool(info.get("TimeLimit.truncated", False))
            buffers.terminated[row] = not buffers.truncated[row]
        for name, array in last_leaves.items():
            buffers.final_obs[name][row] = array
            refuse_bad(buffers.final_obs[name][row : row + 1], name, lambda _: self._who(row))
        scored = info.get("episode")
        if scored is None and self._monitored and not buffers.truncated[row]:
            return []
        if scored is not None:
            self._raw_returns[row], self._lengths[row] = float(scored["r"]), int(scored["l"])
        length, terminated = int(self._lengths[row]), bool(buffers.terminated[row])
        return [self._record(row, frames=length, seed=self._seed, terminated=terminated, info=scalars(info))]

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        return self.reset(int(state["seed"][0]))

    def close(self) -> None:
        """It is the user's."""


def is_monitored(vector: Any) -> bool:
    """Whether a Monitor or VecMonitor writes the scores of true episodes into the infos."""
    layer = vector
    while layer is not None:
        if type(layer).__name__ == "VecMonitor":
            return True
        layer = getattr(layer, "venv", None) if "venv" in vars(layer) else None
    module = sys.modules.get("stable_baselines3.common.monitor")
    return module is not None and hasattr(vector, "env_is_wrapped") and all(vector.env_is_wrapped(module.Monitor))
