"""Where rows go. A sink is two methods; it mirrors what it is given and cannot stop a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gymnast.registry import SINKS


class Sink(Protocol):
    def write(self, step: int, row: dict[str, float]) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Display(Protocol):
    """A sink somebody looks at: it also takes messages, and the step between two rows."""

    def notice(self, text: str) -> None: ...

    def tick(self, step: int) -> None: ...


class SinkGroup:
    """Writes to all; one that fails is dropped with one warning, and training goes on."""

    def __init__(self, sinks: Iterable[Sink], warn: Callable[[str], None]) -> None:
        self._sinks = list(sinks)
        self._warn = warn

    def write(self, step: int, row: dict[str, float]) -> None:
        self._each(lambda sink: sink.write(step, dict(row)))

    def notice(self, text: str) -> None:
        """A message for whoever looks: "checkpoint saved", "solved"."""
        self._each(lambda sink: sink.notice(text) if isinstance(sink, Display) else None)

    def tick(self, step: int) -> None:
        """Between two rows, as often as you like: keeps a progress bar moving."""
        self._each(lambda sink: sink.tick(step) if isinstance(sink, Display) else None)

    def close(self) -> None:
        self._each(lambda sink: sink.close())
        self._sinks = []

    def _each(self, act: Callable[[Sink], None]) -> None:
        for sink in list(self._sinks):
            try:
                act(sink)
            except Exception as error:  # whatever a tracker's client raises, hours of training are worth more
                self._sinks.remove(sink)
                self._warn(f"{type(sink).__name__} failed and gets no more rows: {type(error).__name__}: {error}")


def make_sinks(
    names: Sequence[str],
    *,
    title: str,
    total_steps: int,
    start_step: int,
    facts: Mapping[str, Any],
    metrics_path: Path,
    quiet: bool,
    warn: Callable[[str], None],
) -> SinkGroup:
    """The sinks a config names."""
    options: dict[str, dict[str, Any]] = {
        "console": {
            "title": title,
            "total_steps": total_steps,
            "start_step": start_step,
            "facts": facts,
            "quiet": quiet,
        },
        "jsonl": {"path": metrics_path},
    }
    return SinkGroup([SINKS.get(name)(**options.get(name, {})) for name in names], warn)
