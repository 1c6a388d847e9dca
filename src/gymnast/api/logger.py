"""What a callback writes numbers to, in the shape of stable-baselines3's logger."""

from __future__ import annotations

import numbers
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.errors import Lacking, did_you_mean

if TYPE_CHECKING:
    from gymnast.api.model import Model

PREFIX = "custom/"  # in rows: separate from the metrics that the program itself defines


class Logger:
    """`record("x", 1.0)`: `custom/x` in the next row of metrics, and so wherever rows go. Numbers only."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._said: set[str] = set()
        self.output_formats: list[Any] = []  # rows go to the run's sinks

    def record(self, key: str, value: Any, exclude: Any = None) -> None:
        number = np.asarray(value) if isinstance(value, numbers.Number | np.generic | np.ndarray) else value
        if hasattr(number, "detach"):
            number = number.detach().cpu().numpy()
        if not isinstance(number, np.ndarray) or number.size != 1 or number.dtype.kind not in "fiub":
            if key not in self._said and value is not None:
                self._said.add(key)
                warnings.warn(
                    f"logger.record({key!r}): only numbers are kept, not {type(value).__name__}.", stacklevel=2
                )
            return
        self._model.session.meter.put({PREFIX + key: float(number.item())})

    def record_mean(self, key: str, value: Any, exclude: Any = None) -> None:
        """The mean of what is recorded until the next row."""
        if value is not None:
            self._model.session.meter.add({PREFIX + key: float(value)})

    @property
    def name_to_value(self) -> dict[str, float]:
        """The last row of metrics."""
        return dict(self._model.metrics)

    def dump(self, step: int = 0) -> None:
        """Nothing: training itself writes a row every `log_interval` updates."""

    def info(self, *words: Any) -> None:
        print(*words)

    log = debug = warn = error = info

    def set_level(self, level: int) -> None:
        """Nothing: `verbose` of the model decides what is shown."""

    def get_dir(self) -> str | None:
        """The run's folder, where there is one."""
        return None if self._model.run is None else str(self._model.run.path)

    def close(self) -> None:
        """Nothing is open."""

    def __getattr__(self, name: str) -> Any:
        known = [entry for entry in dir(type(self)) if not entry.startswith("_")]
        raise Lacking(f"model.logger has no {name!r}.{did_you_mean(name, known)} It has: {', '.join(known)}.")
