"""How a wrapper states the range of a parameter in its signature."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Between:
    """Annotated[int, Between(1)]: at least 1. Annotated[float, Between(0, 1)]: both ends included."""

    low: float
    high: float = math.inf

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high and math.isfinite(value)

    def __str__(self) -> str:
        return f">= {self.low}" if self.high == math.inf else f"from {self.low} to {self.high}"
