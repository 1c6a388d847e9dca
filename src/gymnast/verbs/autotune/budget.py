"""What an autotuning may cost: env steps, or seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from gymnast.core.errors import UserError
from gymnast.core.text import duration, number
from gymnast.verbs.progress import Progress

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
STEPS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
TEXT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)\s*([a-zA-Z]*)")


@dataclass
class Budget:
    """Counts what was used of it. Exactly one of the two limits is set."""

    steps: int | None = None
    seconds: float | None = None
    used_steps: int = 0
    used_seconds: float = 0.0

    @property
    def total(self) -> float:
        return float(self.steps) if self.steps is not None else self.seconds or 0.0

    @property
    def used(self) -> float:
        return float(self.used_steps) if self.steps is not None else self.used_seconds

    @property
    def spent(self) -> bool:
        return self.used >= self.total

    def use(self, steps: int, seconds: float) -> None:
        self.used_steps += steps
        self.used_seconds += seconds

    def of(self, steps: int, seconds: float) -> float:
        """In the unit of this budget."""
        return float(steps) if self.steps is not None else seconds

    def meter(self, progress: Progress, seconds: float) -> Callable[[int], bool]:
        """Of a segment that has taken so long up to now: whether anything is left after so many steps of it; the
        progress is reported on the way."""
        began, reported = time.monotonic() - seconds, 0.0

        def left(steps: int) -> bool:
            nonlocal reported
            amount = self.of(steps, time.monotonic() - began)
            progress.done(amount - reported)
            reported = amount
            return self.used + amount < self.total

        return left

    def text(self) -> str:
        return f"{number(self.steps)} steps" if self.steps is not None else duration(self.total)


def parse_budget(text: str) -> Budget:
    """20m is time (s, m, min, h); 500000, 500k and 2M are env steps. UserError for anything else."""
    found = TEXT.fullmatch(text.strip())
    amount, unit = (float(found[1].replace("_", "")), found[2]) if found else (0.0, "")
    if amount > 0 and unit in UNITS:
        return Budget(seconds=amount * UNITS[unit])
    if amount > 0 and unit in STEPS and amount * STEPS[unit] >= 1:
        return Budget(steps=int(amount * STEPS[unit]))
    raise UserError(f"--budget {text}: not understood. Give a time like 20m, 90s or 2h, or env steps like 500k or 2M.")
