"""An episode as it is played step by step: enough to repeat it, to go on from any step of it, and to look at it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.play.episode import Step

PACKED = 2048  # bytes of an observation from which it is kept compressed: pictures
CUT = "cut"


def mark_of(obs: Mapping[str, NDArray[Any]]) -> str:
    """A short mark of an observation: the same for the same numbers, another for others."""
    mark = blake2b(digest_size=8)
    for key, array in obs.items():
        mark.update(key.encode())
        mark.update(np.ascontiguousarray(array).tobytes())
    return mark.hexdigest()


@dataclass
class Trace:
    """One episode. `steps` have no observations: `obs` gives them."""

    n: int
    seed: int  # what the env was reset with
    policy: str  # that began it
    checkpoint: str | None
    parent: int | None = None  # the episode that this one branched off from,
    at: int | None = None  # and the step at which it did
    exact: bool = True  # False: where it branched off or went on, the env did not show what it had shown there before
    steps: list[Step] = field(default_factory=list)
    who: list[str] = field(default_factory=list)  # whose action it was
    checkpoints: list[str | None] = field(default_factory=list)  # whose agent acted or looked on, step by step
    entropies: list[float | None] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)  # of the observations, the last one included
    outcome: str | None = None  # terminated, truncated or cut; None: it goes on
    second_player: bool = False  # somebody else moved in this env: actions alone do not repeat it
    noise: int = 0  # the seed of what is sampled
    renewed: dict[int, int] = field(default_factory=dict)  # steps before which the env got other luck, with the seed
    spacing: int = 1  # of its anchors
    anchors: dict[int, Any] = field(default_factory=dict)  # copies of the env, by step
    size: int = 0  # bytes of its own observations
    _packed: list[dict[str, Any]] = field(default_factory=list)

    def see(self, obs: Mapping[str, NDArray[Any]]) -> None:
        """The next observation of one env, [1, ...] a leaf."""
        packed = {key: _pack(np.asarray(rows[0])) for key, rows in obs.items()}
        self._packed.append(packed)
        self.size += sum(len(leaf[0]) if isinstance(leaf, tuple) else leaf.nbytes for leaf in packed.values())
        self.marks.append(mark_of(obs))

    def add(self, step: Step, who: str, entropy: float | None, checkpoint: str | None = None) -> None:
        self.steps.append(replace(step, obs={}))
        self.who.append(who)
        self.checkpoints.append(checkpoint)
        self.entropies.append(entropy)

    def obs(self, t: int) -> dict[str, NDArray[Any]]:
        return {key: _unpack(leaf) for key, leaf in self._packed[t].items()}

    @property
    def length(self) -> int:
        return len(self.steps)

    @property
    def total(self) -> float:
        return self.steps[-1].total + self.steps[-1].reward if self.steps else 0.0

    @property
    def networks(self) -> set[str | None]:
        """Whose values its steps have: those of a checkpoint, or of the untrained network."""
        pairs = zip(self.who, self.checkpoints, strict=True)
        return {"untrained" if who == "untrained" else checkpoint for who, checkpoint in pairs}

    @property
    def known_entropies(self) -> list[float]:
        return [entropy for entropy in self.entropies if entropy is not None]

    @property
    def actions(self) -> list[Any]:
        return [step.action for step in self.steps]

    def branch(self, n: int, at: int, policy: str, checkpoint: str | None) -> Trace:
        """A new episode with the first steps of this one."""
        return Trace(
            n,
            self.seed,
            policy,
            checkpoint,
            self.n,
            at,
            steps=self.steps[:at],
            who=self.who[:at],
            checkpoints=self.checkpoints[:at],
            entropies=self.entropies[:at],
            marks=self.marks[: at + 1],
            second_player=self.second_player,
            noise=self.noise,
            renewed={t: seed for t, seed in self.renewed.items() if t <= at},
            spacing=self.spacing,
            anchors={t: kept for t, kept in self.anchors.items() if t <= at},
            _packed=self._packed[: at + 1],
        )

    @property
    def _chosen(self) -> Any:
        """The action that a branch began with; None: it is no branch, or who goes on chose it."""
        at = self.at
        is_chosen = self.parent is not None and at is not None and at < self.length and self.who[at] == "human"
        return self.steps[at].action if is_chosen and at is not None else None

    def row(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "seed": self.seed,
            "policy": self.policy,
            "checkpoint": self.checkpoint,
            "length": self.length,
            "return": self.total,
            "outcome": self.outcome,
            "parent": self.parent,
            "at": self.at,
            "action": self._chosen,
            "exact": self.exact,
        }


def _pack(array: NDArray[Any]) -> Any:
    if array.nbytes < PACKED:
        return np.array(array)  # a scalar of a discrete observation too
    return zlib.compress(np.ascontiguousarray(array).tobytes(), 1), array.dtype, array.shape


def _unpack(leaf: Any) -> NDArray[Any]:
    if isinstance(leaf, np.ndarray):
        return leaf
    data, dtype, shape = leaf
    return np.frombuffer(zlib.decompress(data), dtype).reshape(shape).copy()
