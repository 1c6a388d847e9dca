"""report.md and report.html of a sweep: the conclusion, the standings, what mattered, the curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnast.core.files import write_atomic
from gymnast.core.text import assignment, bar, number, score, setting
from gymnast.report.blocks import Block, Heading, Items, Link, Mono, Page, Table, markdown, say
from gymnast.report.charts.model import Chart, Curve, Point
from gymnast.report.html import html_page
from gymnast.verbs.sweep.compare import Comparison
from gymnast.verbs.sweep.plan import Plan
from gymnast.verbs.sweep.space import Dimension
from gymnast.verbs.sweep.standings import NUMBERS, TITLES, Standing
from gymnast.verbs.sweep.store import Curve as Evaluations
from gymnast.verbs.sweep.store import Store

WIDTH = 20  # of a bar
ENOUGH_SEEDS = 5  # with fewer, Student's interval is several times as wide
SCORE = (
    "The score is the mean height of the evaluation curve over the steps, in the env's reward: it rises when a config "
    "learns faster and when it ends higher. Later rounds have more steps, so scores are compared within a round. "
    "Seconds are of training alone and estimated for all steps. The front (*) has the configs that no other one beats "
    "in both score (in the first round) and seconds."
)

Slices = Mapping[str, Sequence[tuple[Any, float]]]


@dataclass(frozen=True)
class Found:
    """The best config of the search, and what fresh seeds say about it."""

    winner: dict[str, Any]
    confirmed: dict[str, Comparison]  # by whom it was compared with; the target is the first, and decides
    scores: dict[str, list[float]]  # of the winner and of each of them, by fresh seed
    seconds: dict[str, float]  # of training: the median of these runs
    curves: dict[str, list[Evaluations]]


def conclusion(found: Found, target: str, variant: Path | None) -> list[str]:
    """What the fresh seeds say, in sentences."""
    lines = [f"best of the search: {', '.join(assignment(key, value) for key, value in found.winner.items())}"]
    for name, compared in found.confirmed.items():
        gain, chance = compared.difference, compared.chance
        lines.append(
            f"on {compared.pairs} fresh seeds its score minus that of {name}: {number(gain.value)} (95 % interval "
            f"{number(gain.low)} to {number(gain.high)}); chance that a run of it is better: {score(chance.value)}"
        )
    lines.append(
        f"training seconds, medians: {', '.join(f'{name} {took:,.1f}' for name, took in found.seconds.items())}"
    )
    if variant is not None:
        return [*lines, f"better than {target}: wrote {variant}"]
    lines.append(f"no better one found than {target}")
    first = next(iter(found.confirmed.values()))
    if first.difference.value > 0 and first.pairs < ENOUGH_SEEDS:
        lines.append(f"{first.pairs} seeds show large differences only: use --seeds {ENOUGH_SEEDS} or more")
    return lines


def write_page(
    plan: Plan,
    store: Store,
    found: Found,
    table: Sequence[Standing],
    importances: Mapping[str, float],
    slices: Slices,
    variant: Path | None,
) -> Path:
    """Both files; the path of the first."""
    page = [
        *_head(plan, found, variant),
        *_standings(table),
        *_importance(importances, max((len(points) for points in slices.values()), default=0)),
        *_slices(plan, slices),
        *_nodes(store),
        *_files(store),
    ]
    path = store.folder / "report.md"
    write_atomic(path, markdown(page).encode())
    write_atomic(path.with_suffix(".html"), html_page(page).encode())
    return path


def _head(plan: Plan, found: Found, variant: Path | None) -> Page:
    verdict = "No better one found" if variant is None else "A better one found"
    seeds = plan.fresh_seeds
    rows = [(str(seed), *(number(scores[i]) for scores in found.scores.values())) for i, seed in enumerate(seeds)]
    curves = [
        Curve(name, runs=[[(float(x), y) for x, y in run] for run in runs]) for name, runs in found.curves.items()
    ]
    return [
        Heading(f"{verdict}: sweep of {plan.label}", 1),
        Items(tuple((line,) for line in conclusion(found, plan.label, variant))),
        Heading("Confirmation on fresh seeds"),
        Table(("seed", *found.scores), tuple(rows), right=tuple(range(1, len(found.scores) + 1))),
        Chart("evaluations on fresh seeds", tuple(curves), in_text=False),
    ]


def _standings(table: Sequence[Standing]) -> list[Block]:
    return [Heading("Configs"), Table(TITLES, tuple(standing.cells for standing in table), NUMBERS), say(SCORE)]


def _importance(importances: Mapping[str, float], trials: int) -> list[Block]:
    if not importances:
        return []
    rows = tuple((Mono(name), score(share), bar(share, WIDTH)) for name, share in importances.items())
    return [
        Heading("What mattered"),
        Table(("setting", "importance", ""), rows, right=(1,)),
        say(
            "How much of the differences between scores of the first round each setting explains (PED-ANOVA). "
            f"{trials} trials, one seed: weak."
        ),
    ]


def _slices(plan: Plan, slices: Slices) -> list[Block]:
    """A dot a config of the first round: score by setting. Lists become tables."""
    blocks: list[Block] = []
    for dim in plan.space:
        points = slices.get(dim.key, ())
        if not points:
            continue
        if dim.kind == "choice":
            rows = [(setting(choice), [y for x, y in points if x == choice]) for choice in dim.choices]
            cells = tuple((name, str(len(ys)), number(sum(ys) / len(ys)), number(max(ys))) for name, ys in rows if ys)
            blocks.append(Table((dim.key, "configs", "mean score", "best"), cells, right=(1, 2, 3)))
        else:
            dots, unit = _dots(dim, points)
            blocks.append(Chart(dim.key, (Curve(f"score by {unit}", dots, joined=False),), unit=unit, small=True))
    return [Heading("Score by setting, first round"), *blocks] if blocks else []


def _dots(dim: Dimension, points: Sequence[tuple[Any, float]]) -> tuple[list[Point], str]:
    """Charts are linear and begin at 0: a logarithmic range is drawn in powers of ten from its beginning."""
    if dim.kind in ("log", "logint"):
        return sorted((math.log10(x / dim.low), y) for x, y in points), f"{dim.key}, powers of 10 above {dim.low:g}"
    if dim.kind == "oneminus":
        most = 1.0 - dim.low
        return sorted((math.log10(most / (1.0 - x)), y) for x, y in points), f"{dim.name}, powers of 10 below {most:g}"
    return sorted((x - min(0.0, dim.low), y) for x, y in points), dim.key + (
        f" above {dim.low:g}" if dim.low < 0 else ""
    )


def _nodes(store: Store) -> list[Block]:
    """Of a cluster. A cell of several rounds may have been on several nodes."""
    rows = tuple((node, str(len(cells)), ", ".join(cells)) for node, cells in store.nodes.items())
    return [Heading("Which node trained what"), Table(("node", "cells", "which"), rows, right=(1,))] if rows else []


def _files(store: Store) -> list[Block]:
    journal, lists = store.journal.name, Mono(f"gymnast runs list --sweep {store.folder.name}")
    return [
        Heading("Files"),
        Items(
            (
                (Link("report.html", "report.html"), ": this page with pictures"),
                (Link(journal, journal), ": Optuna's journal; ", Mono(f"optuna-dashboard {journal}"), " opens it"),
                (Link("cells", "cells"), ": every cell, a config trained with a seed"),
                (
                    Link("runs", "runs"),
                    ": their runs; those of configs that were given up have no checkpoints. ",
                    lists,
                ),
            )
        ),
    ]
