"""An audit's numbers on the terminal and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from gymnast.core.text import number
from gymnast.report.charts.figure import save_histograms
from gymnast.report.charts.text import histogram
from gymnast.terminal.format import Cell, Column, facts_grid, heading, output, panel_width, table


def print_audit(data: dict[str, Any]) -> None:
    console = output()
    title = Text(data["target"], style="bold")
    title.append(f"  {data['steps']:,} steps of {data['n_envs']} envs ({data['engine']} engine), random actions", "dim")
    console.print(title)
    console.print()
    console.print(heading("rewards"))
    console.print(facts_grid(_reward_facts(data["reward"])))
    bars = [(_range(bar["low"], bar["high"]), bar["count"]) for bar in data["reward"]["histogram"]]
    for line in histogram(bars, min(panel_width(console), 90)):
        console.print(line)
    console.print()
    columns = [
        Column(""),
        *(Column(name, right=True) for name in ("mean", "std", "min", "25%", "median", "75%", "max")),
    ]
    rows: list[list[Cell]] = [
        [name, *(number(shares[key], 3) for key in ("mean", "std", "min", "q25", "median", "q75", "max"))]
        for name, shares in (
            ("reward a step", data["reward"]),
            ("steps between rewards", data["reward"]["steps_between_rewards"]),
            ("return of an episode", data["episodes"]["return"]),
            ("length of an episode", data["episodes"]["length"]),
        )
        if shares["mean"] is not None
    ]
    console.print(table(console, columns, rows))
    episodes = data["episodes"]
    console.print(
        f"{episodes['count']:,} episodes: {episodes['terminated']:,} terminated,"
        f" {episodes['truncated']:,} cut by a time limit"
    )
    console.print()
    console.print(heading("envs"))
    console.print(facts_grid(_env_facts(data)))
    if data["warnings"]:
        console.print()
        console.print(heading("look at"))
        for warning in data["warnings"]:
            console.print(Text(f"! {warning}", style="yellow"))
    if data["picture"]:
        console.print(Text(f"\nwrote {data['picture']}", style="dim"))


def _reward_facts(reward: dict[str, Any]) -> list[tuple[str, Cell]]:
    outliers, samples = reward["outliers"], reward["samples_per_reward"]
    far = f"beyond {outliers['beyond']:g} deviations from the mean"
    return [
        ("zero", f"{reward['zero_fraction']:.2%} of all steps"),
        ("samples per reward", "no reward was seen" if samples is None else f"{samples:,.1f}"),
        (
            "outliers",
            f"{outliers['count']:,} ({outliers['fraction']:.2%}) {far}, the furthest {outliers['furthest']:.1f}"
            if outliers["count"]
            else f"none {far}",
        ),
    ]


def _env_facts(data: dict[str, Any]) -> list[tuple[str, Cell]]:
    parallel, seeding, transitions, n = data["parallel"], data["seeding"], data["transitions"], data["n_envs"]
    steps = f"{parallel['steps']:,} steps of the same actions"
    same = "the same trajectory again"
    if not seeding["same_seed_same"]:
        same = f"another trajectory, from step {seeding['differs_from_step']} on"
    return [
        ("first observations", _among(parallel["first_observations"], n)),
        ("trajectories", f"{_among(parallel['trajectories'], n)}, in {steps}"),
        ("same seed", same),
        ("another seed", "another trajectory" if seeding["other_seed_differs"] else "still the same trajectory"),
        (
            "transitions",
            f"{transitions['distinct']:.1%} of all are distinct, {transitions['distinct_at_once']:.1%} of those at one"
            " moment (observation, action, next observation; to a hundredth of each component's deviation)",
        ),
    ]


def _among(different: int, n_envs: int) -> str:
    if different == n_envs:
        return f"all {n_envs} different" if n_envs > 1 else "one env"
    return f"all {n_envs} the same" if different == 1 else f"only {different} different ones in {n_envs} envs"


def _range(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def save_picture(path: Path, data: dict[str, Any], samples: Sequence[NDArray[np.float64]]) -> None:
    """Histograms of rewards, returns and lengths. Counts are logarithmic: a rare reward is what matters most."""
    subjects = ("reward of a step", "return of an episode", "length of an episode")
    title = f"{data['target']}: {data['steps']:,} steps of random actions"
    save_histograms(path, title, dict(zip(subjects, samples, strict=True)))
