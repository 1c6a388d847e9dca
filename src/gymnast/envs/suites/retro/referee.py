"""What a game's variables say of a frame: progress, time, levels, lives and points, and whether it ends the episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymnast.core.errors import UserError, did_you_mean
from gymnast.envs.suites.retro.task import RetroTask, Variables

FRAMES_A_SECOND = 60.0
MEANINGS = {
    "progress": "distance beyond the furthest position in the level so far",
    "time": "-1 for every tick of the game's clock; for every second, where it has none",
    "death": "-1 for a lost life",
    "level": "1 for a level that was won",
    "points": "points gained",
}


def parts_of(variables: Variables) -> dict[str, str]:
    """The parts of a reward that a game with these variables can pay."""
    needs = {"progress": "position", "death": "lives", "level": "level", "points": "points"}
    return {
        name: meaning
        for name, meaning in MEANINGS.items()
        if name not in needs or getattr(variables, needs[name]) is not None
    }


class Referee:
    """Follows one episode frame by frame. `parts`: of the last frame, unweighed."""

    def __init__(self, task: RetroTask, known: Sequence[str]) -> None:
        variables = task.variables or Variables()
        self._names: dict[str, list[str]] = {key: names for key, names in variables if names is not None}
        for key, names in self._names.items():
            for name in names:
                if name not in known:
                    raise UserError(
                        f"env.kwargs: variables.{key}: this game has no variable {name!r}.{did_you_mean(name, known)} "
                        f"Known: {', '.join(known)}."
                    )
        self._cap, self._patience = task.progress_cap, task.no_progress
        self._last: dict[str, float] = {}
        self.parts: dict[str, float] = dict.fromkeys(parts_of(variables), 0.0)
        self.furthest = 0.0
        self.idle = 0  # frames without progress
        self._falls = False  # the clock fell in the last frame
        self.died = self.won = False  # in the last frame
        self.wins = 0  # levels won in the episode

    def start(self, variables: Mapping[str, Any]) -> None:
        self._last = self._read(variables)
        self.furthest, self.idle, self.wins = self._last.get("position", 0.0), 0, 0
        self.died = self.won = self._falls = False
        self.parts = dict.fromkeys(self.parts, 0.0)

    def follow(self, variables: Mapping[str, Any], reward: float) -> None:
        """After a frame."""
        now, last = self._read(variables), self._last
        gained = {key: value - last[key] for key, value in now.items()}
        self.won = gained.get("level", 0.0) > 0
        self.wins += self.won
        self.died = gained.get("lives", 0.0) < 0
        progress = self._progress(now.get("position"))
        self.idle = 0 if progress > 0 or self.won or ("position" not in now and reward != 0) else self.idle + 1
        found = {
            "progress": progress,
            "time": self._time(gained),
            "death": -1.0 if self.died else 0.0,
            "level": 1.0 if self.won else 0.0,
            "points": max(0.0, gained.get("points", 0.0)),
        }
        self.parts = {name: found[name] for name in self.parts}
        self._last = now

    def _time(self, gained: Mapping[str, float]) -> float:
        """A clock that is wound up again, for a new level, takes nothing back. One that falls frame after frame while
        points rise is exchanged for points, at the end of a level: whoever was quick would pay for the time saved."""
        if "clock" not in gained:
            return -1.0 / FRAMES_A_SECOND
        fell, self._falls = self._falls, gained["clock"] < 0
        is_exchanged = fell and gained.get("points", 0.0) > 0
        return 0.0 if is_exchanged else min(0.0, gained["clock"])

    def _progress(self, position: float | None) -> float:
        if position is None:
            return 0.0
        if self.won:  # another level begins
            self.furthest = position
            return 0.0
        gain = min(max(0.0, position - self.furthest), self._cap)
        self.furthest = max(self.furthest, position)
        return gain

    @property
    def is_stuck(self) -> bool:
        return self._patience is not None and self.idle >= self._patience

    def _read(self, variables: Mapping[str, Any]) -> dict[str, float]:
        return {key: _number([variables[name] for name in names]) for key, names in self._names.items()}


def _number(values: Sequence[int]) -> float:
    """Several bytes are one number."""
    total = 0
    for value in values:
        total = total * 256 + int(value)
    return float(total)
