"""What a sample of numbers is like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Distribution:
    """All None where there is no number."""

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    q25: float | None = None
    median: float | None = None
    q75: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Any) -> Distribution:
        if not len(values):
            return cls()
        array = np.asarray(values, np.float64)
        return cls(*map(float, (array.mean(), array.std(), *np.quantile(array, [0, 0.25, 0.5, 0.75, 1]))))
