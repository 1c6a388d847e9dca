"""Where the time goes. Always on: a lap is one clock read and one addition."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter


class Clock:
    """Charges the time since the previous lap to a phase: env, act, copy, returns, update, eval, diagnostics, log or
    idle."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}  # by phase, since the previous report()
        self._before = 0.0  # trained in earlier parts of a resumed run
        self._started: float | None = None
        self.last = self._reported = perf_counter()  # the last lap: it stands still while something is decided
        self._steps = self._updates = 0

    def start(self, env_steps: int, updates: int) -> None:
        """Training begins now, with these counters: not 0 in a run that is continued, and rates count from here."""
        self._started = self.last = self._reported = perf_counter()
        self._steps, self._updates = env_steps, updates
        self._spent = {}

    def lap(self, phase: str) -> None:
        now = perf_counter()
        self._spent[phase] = self._spent.get(phase, 0.0) + now - self.last
        self.last = now

    @property
    def elapsed(self) -> float:
        """Seconds of training, earlier parts of the run included. Set it when a run is continued."""
        return self._before + (perf_counter() - self._started if self._started is not None else 0.0)

    @elapsed.setter
    def elapsed(self, seconds: float) -> None:
        self._before = seconds

    def report(self, env_steps: int, updates: int) -> dict[str, float]:
        """Since the previous call (or the start): rates, and each phase's share of the time up to the last lap; these
        add up to 1. With the time in all."""
        now = perf_counter()
        seconds, total = max(now - self._reported, 1e-9), sum(self._spent.values())
        report = {
            "time/elapsed": self.elapsed,
            "time/fps": (env_steps - self._steps) / seconds,
            "time/updates_per_second": (updates - self._updates) / seconds,
        }
        if total:
            report |= {f"time/share/{phase}": spent / total for phase, spent in self._spent.items()}
        self._reported, self._steps, self._updates, self._spent = now, env_steps, updates, {}
        return report


class TrainingTime:
    """Seconds of training alone, from a run's rows: what evaluations and verdicts took is taken off."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last = 0.0

    def add(self, row: Mapping[str, float]) -> float:
        """Up to this row, which must be the next one."""
        elapsed = row["time/elapsed"]
        self.seconds += (elapsed - self._last) * (1.0 - row.get("time/share/eval", 0.0))
        self._last = elapsed
        return self.seconds
