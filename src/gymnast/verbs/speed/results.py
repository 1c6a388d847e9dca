"""What `gymnast speed` finds out, with and without `--tune`, as data. A rate is env steps a second."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Rates:
    env: float  # alone, with random actions
    collect: float
    update: float
    whole: float


@dataclass(frozen=True)
class Limit:
    """What would be left if nothing but the env and the network's arithmetic took time, one after the other."""

    flops_per_step: float
    matmul_gflops: float
    matmul_shape: list[int]
    arithmetic: float  # rate of the arithmetic alone
    network: float  # rate of torch's passes alone
    env: float
    whole: float  # env and arithmetic
    share: float  # of it that training reaches
    torch: float  # env and torch's passes
    torch_share: float


@dataclass(frozen=True)
class ThreadSetting:
    threads: int | None  # None: the library's own default
    rate: float
    windows: list[float]
    ratio: float  # ours over theirs, as are the other ratios


@dataclass(frozen=True)
class OtherLibrary:
    version: str
    python: str
    default_threads: int
    settings: list[ThreadSetting]
    compile_seconds: float | None  # None: it does not compile
    memory_mb: float | None
    best: float
    ratio: float
    ratio_default: float


@dataclass(frozen=True)
class Tried:
    """A single change, measured in turns with the run as it is."""

    change: str
    set: list[str]
    rate: float
    gain: float
    steady: bool  # every round shows the gain
    note: str


@dataclass(frozen=True)
class Advice:
    base: float
    tried: list[Tried]
    best: Tried | None


@dataclass(frozen=True)
class Training:
    """The long middle of a run, without evaluations."""

    engine: str
    why: str
    threads: int
    rates: Rates
    windows: list[float]
    shares: dict[str, float]  # of the time, by phase
    memory_mb: float
    limit: Limit
    against: dict[str, OtherLibrary]
    advice: Advice | None


@dataclass(frozen=True)
class Start:
    """Seconds from the start of a process; the best of several."""

    who: str
    threads: int | None
    first_update: float
    whole: float
    runs: list[float]


@dataclass(frozen=True)
class Startup:
    target: str
    steps: int
    rows: list[Start]
    share_of: dict[str, float]  # our time over theirs
    command: str


@dataclass(frozen=True)
class Solved:
    threads: int | None
    median_seconds: float  # a seed that was never solved took for ever
    median_steps: float
    solved: int
    runs: list[dict[str, Any]]  # seed, solved_at, seconds


@dataclass(frozen=True)
class Solving:
    threshold: float
    episodes: int
    every: int
    rows: dict[str, Solved]
    times_as_fast_as: dict[str, float]


@dataclass(frozen=True)
class Speed:
    target: str
    env: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    notes: list[str]  # what another library could not be asked for
    training: Training | None = None
    startup: Startup | None = None
    solve: Solving | None = None

    def to_json(self) -> dict[str, Any]:
        """What was not asked for has no key."""
        data = asdict(self)
        data |= data.pop("training") or {}
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
