"""`gymnast autotune` for people."""

from __future__ import annotations

from rich.text import Text

from gymnast.core.text import duration, number
from gymnast.core.text import setting as as_text
from gymnast.terminal.format import Cell, Column, facts_grid, output, right, table
from gymnast.verbs.autotune.page import scored
from gymnast.verbs.autotune.run import Autotuned


def print_autotuned(result: Autotuned) -> None:
    console = output()
    rows = [_decision(line) for line in result.decisions]
    if rows:
        columns = [*right("step"), Column("because", drop=2, wraps=20), Column("change", wraps=30)]
        columns += [Column("as it is", drop=1), Column("changed"), Column("")]
        console.print(table(console, columns, rows))
    state = Text("SOLVED", style="bold green") if result.solved else Text("not solved", style="bold yellow")
    score = "" if result.score is None else f", score {number(result.score)}"
    used = f"{number(result.used_steps)} steps, {duration(result.used_seconds)}"
    alone = "these settings alone solve it, from step 0" if result.reproduced else ""
    if result.solved and not result.reproduced:
        alone = "the agent had other settings before; the budget did not show that these alone solve it"
    kept = " ".join(f"{key}={as_text(value)}" for key, value in result.settings.items())
    facts: list[tuple[str, Cell]] = [
        ("result", state.append(f" at {number(result.env_steps)} steps{score}", style="default")),
        ("run", result.run),
        ("changes", kept or "none"),
        ("", alone),
        ("used", f"{used} of {result.budget}"),
        ("journal", str(result.journal)),
        ("train", result.command),
    ]
    console.print(facts_grid(facts))


def _decision(line: dict[str, object]) -> list[Cell]:
    patch = line["patch"]
    assert isinstance(patch, dict)
    change = " ".join(f"{key}={as_text(value)}" for key, value in patch.items())
    decision = Text("kept", style="green") if line["kept"] else Text("reverted", style="dim")
    sides = [scored(line.get(side)) for side in ("control", "patched")]  # type: ignore[arg-type]
    return [number(line["step"]), str(line.get("rule") or line["situation"]), change, *sides, decision]
