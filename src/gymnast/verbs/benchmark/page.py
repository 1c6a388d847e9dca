"""RESULTS.md: its words, its tables, and its pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from gymnast.core.files import write_atomic
from gymnast.core.statistics import Estimate
from gymnast.core.text import number, or_never, score
from gymnast.report.blocks import table
from gymnast.report.charts.svg import draw
from gymnast.verbs.benchmark.store import Store
from gymnast.verbs.benchmark.summary import (
    MEASURES,
    RowGap,
    RowSummary,
    SideSummary,
    between,
    chart_of,
    overall_improvement,
    summarise,
)

SOLVED = ("runs", "solved", "median score", "IQM [95 %]", "target", "steps", "seconds", "wall")  # of `solved_cells`
GAPS = ("row", "compared with", "measure", "difference [95 %]", "P(better)", "P(solved sooner)")  # of `gap_rows`
HEAD = """# Results

Made by `gymnast benchmark`; `gymnast benchmark --report` makes this page again from `results.json`, which has every
run. Each row names the command that makes it again, and only does what is not there yet."""

BATCHES = """These seeds were run before those of the table, one batch after the other, and the preset was changed, or
kept, because of what they showed. So the count in the table is that of a preset that was selected."""
CHANGED = "The runs of these rows had other settings than the preset has now. The command trains new ones."

READING = """## How to read it

- **runs**: one seed each. A single run says that a preset can do it, not how often. "batch 2": one batch of seeds was
  run before these, and the preset was chosen by what it showed; such batches are listed below the table.
- **solved**: runs with a verdict that shows a mean above the env's own threshold, of all runs. A verdict is a test on
  fresh episodes, and all verdicts of a run share an error of 5 % (docs/verdicts.md). On tables the exact value decides.
  Of another library the mean of one block of fresh episodes decides, which is easier. "0/3 at 4800": the row asks for
  another score than the env's own threshold of 4,800 (column *target*), its verdicts are about that score, and 0 of 3
  runs have a mean score of 4,800. Runs end when their target is shown, so a lower target says nothing about the
  threshold: nobody trained for it.
- **score**: of other fresh episodes (100 unless the row says otherwise), which decided nothing; "exact" where the env's
  table gives the judged policy's true value, without sampling.
- **IQM**: interquartile mean, the mean without the lowest and the highest quarter of the runs. In brackets the 95 %
  interval by the stratified bootstrap (runs are drawn again within each env and library). A row with one run has
  the interval of that run's episodes instead; its area has none.
- **steps, seconds**: medians until the verdict that reached the target. A run that did not reach it counts as infinity;
  "never" is the median where half of the runs or more did not. Seconds are training only, in one thread: the time of
  evaluations and verdicts is not counted. **wall** counts it; "-" where runs are too old to know it.
- **target**: met if the median score reaches it; a target in seconds if the median time stays within it. Where it is
  not the env's own threshold, with the runs whose verdict showed it. "(ours)": Gymnasium registers no threshold for the
  env, it was chosen for this project; `gymnast envs show ENV` says why. Where a preset trains on for more than solved
  (`stop.target`), the runs whose verdict showed that.
- **At equal steps**: all libraries train for the same number of steps with the same settings and number of envs, and
  are evaluated 20 times (unless the command sets eval.every) on 20 greedy episodes, raw returns, the env's own time
  limit, normalisation frozen. *Last agent* and *best agent* (by those evaluations) are scored on fresh episodes;
  *area* is the mean height of the evaluation curve.
- **probability of improvement**: how likely a run of ours is better than one of theirs; a tie counts half. 0.5: no
  difference; an interval that lies below 0.5: ours is worse. Rows where a library has only one run are not shown.
- **Rows of the same env**: each row is compared with the first row of its env. The difference is that of the
  interquartile means. P(better) is the probability that a run of the row has a higher score than a run of the other
  row, P(solved sooner) that it is solved in fewer steps; ties count half. An interval that includes 0 shows no
  difference, and neither do fewer than 4 runs in each row."""


def write_report(store: Store) -> tuple[list[RowSummary], Path]:
    """results.json, pictures and RESULTS.md, from whatever is there."""
    store.save()
    summaries = summarise(store)
    for summary, (row, config) in zip(summaries, store.rows.values(), strict=True):
        if summary.picture:
            folder = store.folder / "pictures"
            folder.mkdir(exist_ok=True)
            write_atomic(folder / summary.picture, draw(chart_of(summary, store.runs_of(row, config))).encode())
    path = store.folder / "RESULTS.md"
    write_atomic(path, page(summaries, machines(store)).encode())
    return summaries, path


def machines(store: Store) -> list[str]:
    """Where the runs that count were made, and with what."""
    runs: Counter[str] = Counter()
    packages: dict[str, dict[str, None]] = {}
    for row, config in store.rows.values():
        for record in (record for records in store.runs_of(row, config).values() for record in records):
            place = f"{record['machine']['cpu']}, {record['machine']['cores']} cores"
            runs[place] += 1
            packages.setdefault(place, {}).update(
                dict.fromkeys(f"{name} {v}" for name, v in record["versions"].items())
            )
    return [f"{place}; {', '.join(packages[place])} ({count} runs)" for place, count in runs.most_common()]


def page(summaries: Sequence[RowSummary], machines: Sequence[str]) -> str:
    parts = [HEAD]
    parts += ["\n".join(f"- {machine}" for machine in machines)] if machines else []
    solving = [summary for summary in summaries if not summary.equal_steps]
    equal = [summary for summary in summaries if summary.equal_steps]
    if solving:
        parts += ["## Does it solve", solved_table(solving), *history(solving)]
    if equal:
        parts += ["## At equal steps", equal_table(equal)]
    if any(summary.improvement for summary in equal):
        parts += ["### Probability of improvement", improvement_table(equal)]
    if gaps := between(summaries):
        parts += ["## Rows of the same env", rows_table(gaps)]
    notes = [f"- `{summary.target}`: {note}" for summary in summaries for note in summary.notes]
    if notes:
        parts += ["### Settings that another library does not have", "\n".join(dict.fromkeys(notes))]
    if any(summary.nodes for summary in summaries):
        parts += ["## Which node trained what", nodes_table(summaries)]
    pictures = [f"![{summary.target}](pictures/{summary.picture})" for summary in summaries if summary.picture]
    if pictures:
        caption = (
            "Evaluations while training; the dashed line is the target score. One line a run, or the interquartile mean"
            " of all."
        )
        parts += ["## Learning curves", caption, "\n".join(pictures)]
    return "\n\n".join([*parts, READING]) + "\n"


def history(summaries: Sequence[RowSummary]) -> list[str]:
    """Which rows have seeds before theirs, and which were made with other settings than the preset has now."""
    tried = [f"- `{one.label}`: {', '.join(one.before)}" for one in summaries if one.before]
    changed = [f"- `{one.label}`" for one in summaries if one.is_outdated]
    found = ["### Earlier batches of seeds", "\n".join([BATCHES, "", *tried])] if tried else []
    return [*found, "### Presets that have changed since", "\n".join([CHANGED, "", *changed])] if changed else found


def solved_table(summaries: Sequence[RowSummary]) -> str:
    rows = [
        [*split(summary.target), who, *solved_cells(summary, side), f"`{summary.command}`"]
        for summary in summaries
        for who, side in summary.sides.items()
    ]
    return table(rows, ("env", "variant", "who", *SOLVED, "command"))


def split(target: str) -> tuple[str, str]:
    name, _, variant = target.rpartition(":")
    return (name, variant) if name else (target, "")


def solved_cells(summary: RowSummary, side: SideSummary) -> list[str]:
    if side.iqm is None:
        return [f"0 of {side.asked} runs done", "", "", "", goal(summary, side), "", "", ""]
    episodes = "exact" if side.exact else f"{side.episodes} episodes" if side.episodes != 100 else ""
    return [
        seeds_of(side) + (f", batch {len(summary.before) + 1}" if summary.before else ""),
        f"{side.solved}/{side.runs}"
        if side.reaches_own is None
        else f"{side.reaches_own}/{side.runs} at {summary.own_threshold:g}",
        number(side.median) + (f" ({episodes})" if episodes else ""),
        with_interval(side.iqm["score"]),
        goal(summary, side),
        or_never(side.steps_to_target),
        seconds(side.seconds_to_target),
        "-" if side.wall_to_target is None else seconds(side.wall_to_target),
    ]


def seeds_of(side: SideSummary) -> str:
    """How many there are, so that nobody takes a single run for more."""
    said = "a single run" if side.runs == 1 else f"{side.runs} seeds"
    return said if side.runs >= side.asked else f"{said} of {side.asked}"


def goal(summary: RowSummary, side: SideSummary) -> str:
    """The targets and whether they are met."""
    parts = []
    for sign, value, unit, met in (
        (">=", summary.target_score, "", side.met),
        ("<=", summary.within, " s", side.in_time),
    ):
        if value is not None:
            ours = " (ours)" if summary.is_ours and value is summary.target_score else ""
            parts.append(f"{sign} {value:g}{unit}{ours}{'' if met is None else ' met' if met else ' missed'}")
            if value is summary.target_score and side.reaches_own is not None:
                parts[-1] += f": {side.solved}/{side.runs}"
    if summary.goal is not None and side.on_target is not None:
        parts.append(f"training's target {summary.goal:g}: {side.on_target}/{side.runs}")
    return ", ".join(parts)


def equal_table(summaries: Sequence[RowSummary]) -> str:
    titles = ["env", "steps", "who", "runs", *(f"{name}, IQM [95 %]" for name in MEASURES.values())]
    titles += ["median, last agent", "steps to target", "seconds to target", "training seconds", "command"]
    rows = [
        [summary.target, number(summary.steps), who, *equal_cells(summary, side), f"`{summary.command}`"]
        for summary in summaries
        for who, side in summary.sides.items()
    ]
    return table(rows, titles)


def equal_cells(summary: RowSummary, side: SideSummary) -> list[str]:
    if side.iqm is None:
        return [f"0 of {side.asked}", *[""] * 7]
    estimates = [with_interval(side.iqm[name]) for name in MEASURES]
    score = "" if summary.target_score is None else f" (>= {summary.target_score:g})"
    times = [or_never(side.steps_to_target) + score, seconds(side.seconds_to_target), seconds(side.seconds)]
    return [seeds_of(side), *estimates, number(side.median), *times]


def nodes_table(summaries: Sequence[RowSummary]) -> str:
    rows = [
        [summary.target, node, str(len(runs)), ", ".join(runs)]
        for summary in summaries
        for node, runs in summary.nodes.items()
    ]
    return table(rows, ("env", "node", "runs", "which"))


def improvement_table(summaries: Sequence[RowSummary]) -> str:
    found = [(summary.target, who, c) for summary in summaries for who, c in summary.improvement.items()]
    found += [(f"all {n}", who, c) for who, (n, c) in overall_improvement(summaries).items() if n > 1]
    rows = [
        [name, f"over {who}", *(with_interval(c[measure], score) for measure in MEASURES)] for name, who, c in found
    ]
    return table(rows, ("env", "ours", *MEASURES.values()))


def rows_table(found: Sequence[RowGap]) -> str:
    return table(gap_rows(found), GAPS)


def gap_rows(found: Sequence[RowGap]) -> list[list[str]]:
    """A line for each pair of rows and measure."""
    lines = []
    for pair in found:
        for name, gap in pair.gaps.items():
            difference = Estimate(*(math.nan if x is None else x for x in (gap.value, gap.low, gap.high)))
            chance = "" if gap.chance is None else score(gap.chance)
            title = MEASURES.get(name, name)
            lines.append([pair.row, pair.against, title, with_interval(difference), chance, score(pair.sooner)])
    return lines


def with_interval(found: Estimate, text: Callable[[float], str] = number) -> str:
    value, low, high = (or_never(end, text) for end in (found.value, found.low, found.high))
    return value if math.isnan(found.low) else f"{value} [{low}, {high}]"


def seconds(value: float | None) -> str:
    return or_never(value, "{:,.1f}".format)
