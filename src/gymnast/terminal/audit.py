"""`gymnast envs audit` for people."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from gymnast.core.text import number
from gymnast.report.charts.text import histogram
from gymnast.terminal.format import Cell, Column, facts_grid, look_at, output, panel_width, right, section, table
from gymnast.verbs.envs.play import STATISTICS
from gymnast.verbs.result import Facts

WIDEST = 90  # columns of a histogram
TITLES = ("mean", "std", "min", "25%", "median", "75%", "max")  # of STATISTICS


def print_audit(result: Facts) -> None:
    console, data = output(), result.data
    reward, episodes = data["reward"], data["episodes"]
    title = Text(data["target"], style="bold")
    title.append(f"  {data['steps']:,} steps of {data['n_envs']} envs ({data['engine']} engine), random actions", "dim")
    console.print(title)
    bars = [(_range(bar["low"], bar["high"]), bar["count"]) for bar in reward["histogram"]]
    drawn = histogram(bars, min(panel_width(console), WIDEST))
    section(console, "rewards", facts_grid(_reward_facts(reward)), *drawn)
    console.print()
    samples = {
        "reward a step": reward,
        "steps between rewards": reward["steps_between_rewards"],
        "return of an episode": episodes["return"],
        "length of an episode": episodes["length"],
        **{f"{name} of an episode": sample for name, sample in episodes["components"].items()},
    }
    found = {name: sample for name, sample in samples.items() if sample["mean"] is not None}
    rows = [[name, *(number(sample[key], 3) for key in STATISTICS)] for name, sample in found.items()]
    console.print(table(console, [Column(""), *right(*TITLES)], rows))
    endings = f"{episodes['terminated']:,} terminated, {episodes['truncated']:,} cut by a time limit"
    console.print(f"{episodes['count']:,} episodes: {endings}")
    section(console, "envs", facts_grid(_env_facts(data)))
    look_at(console, data["warnings"])
    if data["picture"]:
        console.print(Text(f"\nwrote {data['picture']}", style="dim"))


def _reward_facts(reward: dict[str, Any]) -> list[tuple[str, Cell]]:
    outliers, samples = reward["outliers"], reward["samples_per_reward"]
    far = f"beyond {outliers['beyond']:g} standard deviations from the mean"
    found = f"{outliers['count']:,} ({outliers['fraction']:.2%}) {far}, the furthest {outliers['furthest']:.1f}"
    return [
        ("zero", f"{reward['zero_fraction']:.2%} of all steps"),
        ("samples per reward", "no reward was seen" if samples is None else f"{samples:,.1f}"),
        ("outliers", found if outliers["count"] else f"none {far}"),
    ]


def _env_facts(data: dict[str, Any]) -> list[tuple[str, Cell]]:
    parallel, seeding, new, n = data["parallel"], data["seeding"], data["transitions"], data["n_envs"]
    same = "the same trajectory again"
    if not seeding["same_seed_same"]:
        same = f"another trajectory, from step {seeding['differs_from_step']} on"
    return [
        ("first observations", _among(parallel["first_observations"], n)),
        ("trajectories", f"{_among(parallel['trajectories'], n)}, in {parallel['steps']:,} steps of the same actions"),
        ("same seed", same),
        ("another seed", "another trajectory" if seeding["other_seed_differs"] else "still the same trajectory"),
        (
            "transitions",
            f"{new['distinct']:.1%} of all are distinct, {new['distinct_at_once']:.1%} of those at one moment"
            " (observation, action, next observation; to a hundredth of each component's standard deviation)",
        ),
    ]


def _among(different: int, n_envs: int) -> str:
    if different == n_envs:
        return f"all {n_envs} different" if n_envs > 1 else "one env"
    return f"all {n_envs} the same" if different == 1 else f"only {different} different ones in {n_envs} envs"


def _range(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
