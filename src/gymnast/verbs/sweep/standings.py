"""How the configs of a sweep stand, from its cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gymnast.core.text import assignment, number
from gymnast.verbs.sweep.compare import front
from gymnast.verbs.sweep.plan import Candidate, Plan, rounds_of
from gymnast.verbs.sweep.store import Store

TITLES = ("config", "settings", "round", "seeds", "steps", "score", "seconds", "front")
NUMBERS = (2, 3, 4, 5, 6)  # columns of them


@dataclass(frozen=True)
class Standing:
    """A config on the search seeds it got, up to the steps of the last round it was in."""

    config: str
    values: dict[str, Any]  # {}: the base
    round: int
    seeds: int
    steps: int
    score: float
    seconds: float  # training seconds that all of the sweep's steps take, estimated from those that were made
    stopped: bool
    on_front: bool = False  # no other config has a better score in the first round and takes fewer seconds

    @property
    def settings(self) -> str:
        return ", ".join(assignment(key, value) for key, value in self.values.items()) or "(as it is)"

    @property
    def cells(self) -> tuple[str, ...]:
        """By TITLES."""
        steps = f"{'stopped before ' if self.stopped else ''}{self.steps:,}"
        numbers = (str(self.round), str(self.seeds), steps, number(self.score), f"{self.seconds:,.1f}")
        return self.config, self.settings, *numbers, "*" if self.on_front else ""


def standings(plan: Plan, store: Store, drawn: Iterable[Candidate]) -> list[Standing]:
    """Best first: those that came further, then by score."""
    rounds = rounds_of(1, plan.steps)
    found: list[Standing] = []
    firsts: list[tuple[float, float]] = []
    for candidate in (plan.base, *drawn):
        records = [r for seed in plan.search_seeds if (r := store.records.get((candidate.id, seed))) is not None]
        if not records:
            continue
        shortest, stopped = min(record.steps for record in records), any(record.stopped for record in records)
        index = max((i for i, r in enumerate(rounds) if r.steps <= shortest and r.seeds <= len(records)), default=0)
        steps = rounds[index].steps
        score = sum(record.score(steps) for record in records) / len(records)
        seconds = sum(r.seconds for r in records) / sum(r.steps for r in records) * plan.steps
        firsts.append((records[0].score(rounds[0].steps), seconds))
        found.append(Standing(candidate.id, candidate.values, index + 1, len(records), steps, score, seconds, stopped))
    marked = [replace(standing, on_front=on) for standing, on in zip(found, front(firsts), strict=True)]
    return sorted(marked, key=lambda standing: (-standing.round, -standing.seeds, -standing.score))
