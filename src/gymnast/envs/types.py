"""What every vector engine gives the learner. One contract; `tests/contract` holds every engine to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Obs = dict[str, NDArray[Any]]  # one array a leaf of the observation space, [N, ...]; {"obs": ...} for a plain space
ObsSpace = dict[str, gym.Space[Any]]
NewArray = Callable[[tuple[int, ...], Any], NDArray[Any]]  # of a shape and a dtype
Picture = NDArray[np.uint8]  # [height, width, 3]
NO_PICTURE: Picture = np.zeros((0, 0, 3), np.uint8)

# An env that declares metadata[LEARNER_END] sets info[LEARNER_END] where the episode ends for the learner alone
# (terminated, final_obs): a lost life, a point. The game and its score go on: no EpisodeRecord, no reset.
LEARNER_END = "learner_end"
SUM_TOLERANCE = 1e-5  # between a reward and the sum of its named parts, relative to numbers above 1


class Box(NamedTuple):
    """An object where it is in an env's picture, in pixels."""

    name: str
    x: int
    y: int
    width: int
    height: int


@dataclass(slots=True)
class EpisodeRecord:
    """A finished episode, as the env itself scored it: below shaping, clipping and every other wrapper."""

    env: int  # index in the vector
    raw_return: float
    length: int  # agent decisions
    frames: int  # raw env steps; more than `length` under frame skip
    seed: int  # what the episode was reset with
    terminated: bool  # False: cut by a time limit
    components: dict[str, float] = field(default_factory=dict)  # named parts of the return
    info: dict[str, Any] = field(default_factory=dict)
    shaped_return: float | None = None  # what the learner was paid; None: the raw return
    task: str | None = None  # of a run with several

    @property
    def success(self) -> bool | None:
        """Whether the env says that its goal was reached (info["is_success"]); None: it says nothing."""
        said = self.info.get("is_success")
        return None if said is None else bool(said)


@dataclass(slots=True)
class StepBatch:
    """Buffers belong to the engine and are valid until its next call: copy what must live longer.

    SAME-STEP: where an episode ended, `obs` is already the first observation of the next one and `final_obs` holds
    the last observation of the one that ended. `terminated` and `truncated` are never both true. A row that ended
    without an EpisodeRecord lost a life: the game goes on, `obs` and `final_obs` are the same picture.
    """

    obs: Obs
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_obs: Obs  # rows are defined only where an episode ended
    episodes: list[EpisodeRecord]
    mask: NDArray[np.bool_] | None = None  # [N, actions] that may be taken next; None: all of them
    components: dict[str, NDArray[np.float64]] | None = None  # of `reward`, [N] each, as weighed; None: not shaped


class VecEnv(Protocol):
    """A vector of environments stepped together.

    One that can do more says so by having more methods, which are asked for before a run starts: `snapshot(i)` and
    `restore(i, snapshot)` of one env; `send(rows, actions)` and `receive()`, where some envs need not wait for others.
    """

    engine: str  # its name in the config
    n_envs: int
    obs_space: ObsSpace  # of one env, after wrappers, in the engine's dtypes and layout
    action_space: gym.Space[Any]  # of one env
    action_labels: list[str] | None  # what its envs call their choices; None: they do not say
    exact_resume: bool  # whether load_state continues episodes exactly where save_state left them

    def reset(self, seed: int) -> StepBatch:
        """Starts a new episode in every env; env i's episode k is seeded with derive_seed(seed, i, k)."""

    def step(self, actions: NDArray[Any]) -> StepBatch: ...

    def save_state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to continue, as arrays."""

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        """Continues from save_state's result (exactly, where exact_resume); returns the observations to act on."""

    def close(self) -> None: ...
