"""What `gymnast speed` finds out, with and without `--tune`, as data. A rate is env steps a second."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Speed:
    """Its parts are JSON already; the functions that make them say what is in them."""

    target: str
    env: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    notes: list[str]  # what another library could not be asked for
    training: dict[str, Any] | None = None
    startup: dict[str, Any] | None = None
    solve: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """What was not asked for has no key."""
        data = {**vars(self), **(self.training or {}), "training": None}
        return {key: value for key, value in data.items() if value is not None}


@dataclass(eq=False)
class Candidate:
    """An engine, envs and threads, measured in turns with the config as it is."""

    engine: str
    n_envs: int
    n_steps: int
    threads: int | None
    current: bool = False
    rates: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.engine} {self.n_envs} x {self.n_steps}, threads {self.threads or 'auto'}"

    @property
    def rate(self) -> float:
        """The best window's: other work on the machine only ever slows one down."""
        return max(self.rates, default=0.0)

    def overrides(self) -> tuple[str, ...]:
        threads = "null" if self.threads is None else self.threads
        return (
            f"env.engine={self.engine}",
            f"env.n_envs={self.n_envs}",
            f"algo.n_steps={self.n_steps}",
            f"train.threads={threads}",
        )

    def gain(self, now: Candidate) -> float:
        return self.rate / now.rate - 1.0


@dataclass(frozen=True)
class Tuning:
    target: str
    env: str
    machine: dict[str, Any]
    best: Candidate
    current: Candidate
    table: list[Candidate]
    steps_between_rewards: float
    n_steps_advice: int | None
    seconds: float
    cache: str
    file: str | None

    def to_json(self) -> dict[str, Any]:
        rows = {"best": self.row(self.best), "current": self.row(self.current), "table": [*map(self.row, self.table)]}
        return asdict(self) | rows

    def row(self, one: Candidate) -> dict[str, Any]:
        data = asdict(one) | {"rate": one.rate, "gain": one.gain(self.current), "set": list(one.overrides())}
        data["rounds"] = len(data.pop("rates"))
        return data
