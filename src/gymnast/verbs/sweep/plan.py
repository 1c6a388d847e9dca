"""What a sweep is asked to do: the base config, the space, the rounds and their seeds."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.core.seeds import derive_seed
from gymnast.verbs.sweep.space import Dimension, found_at, value_at, with_values

EVALUATIONS = 20  # of a full run; rounds end with one of them
SAMPLERS = ("random", "grid", "tpe", "gp")
# What every cell has, so that all are measured alike: the same evaluations, all of the steps, one thread.
MEASURED = (
    "train.threads=1",
    "train.checkpoint_every=null",
    "stop.on_solved=false",
    "stop.target=null",
    "stop.threshold=null",
    "stop.seconds=null",
    "stop.plateau=null",
    "eval.every=null",
    "eval.warmup=0",
    "eval.start_level=null",
    "eval.background=false",
    "log.sinks=[jsonl]",
    "log.diagnostics=0",
    "log.video=off",
)


@dataclass(frozen=True)
class Round:
    """Survivors of the round before, each on so many common seeds, up to so many steps."""

    candidates: int
    seeds: int
    steps: int


def rounds_of(trials: int, steps: int) -> list[Round]:
    """Many configs with one seed, then few with several. The shortest trainings have half of the steps: what is slow
    in the beginning and good in the end is still flat after a quarter. More than three seeds would tell two good
    configs apart a little better; the same steps find more by trying further configs."""
    second = min(trials, max(2, math.ceil(trials / 4)))
    third = min(second, max(3, math.ceil(trials / 8)))
    fourth = min(third, 2)
    return [
        Round(trials, 1, steps // 2),
        Round(second, 1, steps),
        Round(third, 2, steps),
        Round(fourth, 3, steps),
    ]


@dataclass(frozen=True)
class Candidate:
    """A config of the space; the base has no values."""

    id: str
    config: configs.RunConfig
    values: dict[str, Any]  # as a file has them: lin_0.003


@dataclass(frozen=True)
class Plan:
    """All that decides which cells a sweep has, but for the number of its trials."""

    target: str
    asked: configs.RunConfig  # the config that the user named, with the sweep's steps
    space: list[Dimension]
    sampler: str
    seed: int
    fresh: int  # seeds of the confirmation
    init_from: Path | None = None  # a checkpoint that every cell starts from
    against: tuple[str, configs.RunConfig] | None = None  # another config that the winner is compared with
    given: tuple[str, ...] = ()  # --set, on top of the target
    shipped: configs.RunConfig | None = None  # the preset of the env, for the same algorithm

    @property
    def steps(self) -> int:
        return self.asked.train.total_timesteps

    @cached_property
    def base(self) -> Candidate:
        return self.candidate({})

    @cached_property
    def init_digest(self) -> str | None:
        """Of the checkpoint: the file of a run that trains on has other contents under the same name."""
        return None if self.init_from is None else hashlib.sha256(self.init_from.read_bytes()).hexdigest()

    @cached_property
    def search_seeds(self) -> list[int]:
        return [derive_seed(self.seed, "search", index) for index in range(rounds_of(1, self.steps)[-1].seeds)]

    @cached_property
    def fresh_seeds(self) -> list[int]:
        """Never used in the search."""
        return [derive_seed(self.seed, "fresh", index) for index in range(self.fresh)]

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """ConfigError where these settings do not fit together."""
        data = with_values(self.asked, values)
        written = {key: found_at(data, key) for key in values}
        return self.measured(configs.validate(data, dict.fromkeys(values, "search")), written)

    def measured(self, config: configs.RunConfig, values: Mapping[str, Any]) -> Candidate:
        config = configs.override(config, MEASURED)
        return Candidate(fingerprint(config, self.init_digest), config, dict(values))

    @cached_property
    def opponents(self) -> dict[str, Candidate]:
        """What the winner is compared with on fresh seeds, by name: first the base, which decides."""
        other = {} if self.against is None else {self.against[0]: self.measured(self.against[1], {})}
        return {self.label: self.base, **other}

    @property
    def label(self) -> str:
        """The base in words."""
        return f"{self.target} with {', '.join(self.given)}" if self.given else self.target

    def drawn_base(self) -> dict[str, Any] | None:
        """The base as a point of the space; None where a range does not have its value."""
        drawn = {dim.name: dim.drawn(value_at(self.asked, dim.key)) for dim in self.space}
        return None if None in drawn.values() else drawn

    @property
    def starts(self) -> list[dict[str, Any]]:
        """Points of the space that are worth a trial before any is drawn: the values of the env's preset and of
        --against, or the nearest that the ranges have."""
        known = (self.shipped, None if self.against is None else self.against[1])
        found: list[dict[str, Any]] = []
        for config in known:
            if config is None or config.algo.name != self.asked.algo.name:
                continue
            values = {dim.key: value_at(config, dim.key) for dim in self.space}
            point = {dim.name: dim.nearest(values[dim.key]) for dim in self.space}
            is_base = all(value == value_at(self.asked, key) for key, value in values.items())
            if not is_base and None not in point.values() and point not in found:
                found.append(point)
        return found

    def to_json(self) -> dict[str, Any]:
        """The same for the same sweep, to which trials and fresh seeds may be added."""
        return {
            "target": self.target,
            "config": self.asked.model_dump(mode="json"),
            "space": {dim.key: dim.text for dim in self.space},
            "sampler": self.sampler,
            "seed": self.seed,
            "init_from": None if self.init_from is None else f"{self.init_from}, sha256 {self.init_digest}",
            "against": None if self.against is None else self.against[0],
        }

    @property
    def name(self) -> str:
        digest = hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:6]
        words = "".join(char if char.isalnum() else " " for char in Path(self.target).name.lower()).split()
        return "-".join([*words, digest])


def fingerprint(config: configs.RunConfig, init_digest: str | None) -> str:
    """The same for the same training, whatever its seed."""
    data = config.model_dump(mode="json", exclude_defaults=True)
    data["algo"] = {**data.get("algo", {}), "name": config.algo.name}
    for key in ("seed", "resources"):
        data.get("train", {}).pop(key, None)
    text = json.dumps([data, str(init_digest)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
