"""What one step of an actor costs, in runs with `train.layout: central`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gymnast.core.text import bar
from gymnast.report.blocks import Block, Heading, Table

CALL = {
    "send": "packing and sending the actions",
    "env": "the envs' own step, in the actor",
    "wait": "on the way, and in the queue",
    "receive": "reading and unpacking the answer",
}
PHASES = {
    "env": "waiting for actors",
    "receive": "reading what they answer",
    "copy": "filling rollouts",
    "act": "choosing actions",
    "send": "sending actions",
    "blocked": "all actors wait for the learner (train.central.max_lag)",
}
SHARE = "central/share/"
Rows = Sequence[Mapping[str, float]]


def actor_costs(rows: Rows) -> list[Block]:
    """A call by its parts, and the time of the thread that chooses actions, where there is one."""
    calls = {part: ms for part in CALL if (ms := _mean(rows, f"central/{part}_ms")) is not None}
    threads = [row for row in rows if any(name.startswith(SHARE) for name in row)]
    shares = {phase: sum(row.get(SHARE + phase, 0.0) for row in threads) / len(threads) for phase in PHASES if threads}
    if not calls:
        return []
    costs = tuple((part, f"{ms:.3f}", CALL[part]) for part, ms in calls.items())
    page: list[Block] = [Heading("Actors"), Table(("part of a call", "ms", "what"), costs, right=(1,))]
    if shares:
        spent = tuple((phase, f"{share:.0%}", bar(share, 20), PHASES[phase]) for phase, share in shares.items())
        page.append(Table(("inference thread", "share", "", "what"), spent, right=(1,)))
    return page


def _mean(rows: Rows, name: str) -> float | None:
    values = [row[name] for row in rows if name in row]
    return sum(values) / len(values) if values else None
