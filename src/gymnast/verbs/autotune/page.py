"""journal.md: what was tried, why, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnast.core.files import write_atomic
from gymnast.core.text import duration, number
from gymnast.core.text import setting as as_text

if TYPE_CHECKING:
    from gymnast.verbs.autotune.journal import Journal, Line

COLUMNS = (
    "step",
    "situation",
    "why",
    "change",
    "from",
    "as it is",
    "changed",
    "difference [95 %]",
    "decision",
    "steps",
)


def write_page(journal: Journal) -> None:
    lines = journal.lines
    start: Line = next((line for line in lines if line["kind"] == "start"), {})
    end: Line | None = next((line for line in reversed(lines) if line["kind"] == "end"), None)
    segments = [line["outcome"] for line in lines if line["kind"] == "segment"]
    settings = " ".join(f"`{text}`" for text in start.get("overrides", []))
    parts = [f"# Autotuning of {start.get('target')}", f"Settings that were given: {settings or 'none'}."]
    if end is not None:
        said = "Solved" if end["solved"] else "Not solved"
        kept = " ".join(f"`{key}={as_text(value)}`" for key, value in end["settings"].items())
        parts.append(f"{said} by run {end['run']} at {number(end['env_steps'])} steps. Changes: {kept or 'none'}.")
        alone = "These settings alone solve it, from step 0" if end["reproduced"] else "The settings that were kept"
        parts.append(f"{alone}: `{end['command']}`")
    steps, seconds = sum(one["trained"] for one in segments), sum(float(one["seconds"]) for one in segments)
    parts.append(
        f"Trained {number(steps)} steps in {duration(seconds)}, in {len({one['run'] for one in segments})} runs."
    )
    rows = [row(line) for line in lines if line["kind"] == "decision"]
    if rows:
        table = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in table))
    else:
        parts.append("Nothing was tried: no decision was due.")
    write_atomic(journal.folder / "journal.md", ("\n\n".join(parts) + "\n").encode())


def row(line: Line) -> tuple[str, ...]:
    why = f"{line['rule']}: {line['evidence']}" if line.get("rule") else line.get("reason", "nothing is left to try")
    change = " ".join(f"{key}={as_text(value)}" for key, value in line["patch"].items())
    between = line.get("difference")
    return (
        number(line["step"]),
        line["situation"],
        why.replace("|", "/"),
        f"`{change}`",
        line.get("start", ""),
        scored(line.get("control")),
        scored(line.get("patched")),
        "" if between is None else f"{number(between[0])} to {number(between[1])}",
        f"{'**kept**' if line['kept'] else 'reverted'}: {line['why']}" if line.get("why") else "**kept**",
        number(line.get("cost_steps")),
    )


def scored(side: dict[str, Any] | None) -> str:
    if side is None:
        return ""
    score = number(side["score"]) if isinstance(side["score"], int | float) else "no score"
    return f"{score} at {number(side['env_steps'])}{' (solved)' if side['solved'] else ''}"
