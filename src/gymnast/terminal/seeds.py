"""`gymnast train --seeds` for people: a line a run, and all of them in one."""

from __future__ import annotations

from rich.text import Text

from gymnast.core.text import number, or_never, score
from gymnast.terminal.format import output
from gymnast.terminal.runs import print_list
from gymnast.verbs.runs.compare import Measured
from gymnast.verbs.runs.show import RunsList
from gymnast.verbs.seeds import SeedsTrained


def print_seeds(result: SeedsTrained) -> None:
    console = output()
    if result.runs:
        print_list(RunsList(result.runs_dir, result.runs, [], len(result.runs)))
    for seed, why in result.failed.items():
        console.print(Text(f"seed {seed} failed: {why}", style="red"))
    console.print()
    console.print(Text(summary_line(result), style="bold"), soft_wrap=True)
    for command, what in result.next:
        console.print(Text(command, style="cyan").append(f"  {what}", style="dim"), soft_wrap=True)


def summary_line(result: SeedsTrained) -> str:
    """solved 4 of 5, score 480.10 [430.20, 499.00], 40,960 steps to the threshold"""
    parts = []
    if any(run.solved is not None for run in result.runs):
        parts.append(f"solved {result.solved} of {result.asked}")
    exact, mean = (result.measures.get(name, Measured([])) for name in ("exact", "score"))
    name, measured = ("exact value", exact) if exact.values else ("score", mean)
    if measured.value is not None:
        parts.append(f"{name} {score(measured.value)}")
        if measured.low is not None and measured.high is not None:
            parts[-1] += f" [{score(measured.low)}, {score(measured.high)}] (interquartile mean, 95 % interval)"
    steps = result.measures.get("steps_to_threshold", Measured([])).value
    if steps is not None:
        parts.append(f"steps to the threshold (median): {or_never(steps, number)}")
    return f"{result.target}: {', '.join(parts) or 'no score'}"
