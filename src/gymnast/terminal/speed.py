"""What `gymnast bench` says to people."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast.terminal.format import Cell, Column, facts_grid, heading, output, table


def print_bench(data: dict[str, Any]) -> None:
    console = output()
    console.print(Text(data["target"], style="bold"))
    machine = data["machine"]
    console.print(Text(f"{machine['cpu']}, {machine['cores']} cores", style="dim"))
    if "rates" in data:
        _print_rates(console, data)
    if data.get("against"):
        _print_against(console, data)
    if "advice" in data:
        _print_advice(console, data["advice"])
    if "startup" in data:
        _print_startup(console, data["startup"])
    if "solve" in data:
        _print_solve(console, data["solve"])
    for note in data["notes"]:
        console.print(Text(f"! {note}", style="yellow"))


def rate(value: float) -> str:
    return f"{value:,.0f}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def gain(value: float) -> str:
    return f"{100 * value:+.0f} %"


def times(value: float) -> str:
    return f"{value:.2f}x" if math.isfinite(value) else "-"


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if math.isfinite(seconds) else "never"


def _print_rates(console: Console, data: dict[str, Any]) -> None:
    rates, limit, settings = data["rates"], data["limit"], data["settings"]
    console.print()
    rows: list[list[Cell]] = [
        ["env alone", rate(rates["env"]), f"{data['engine']} engine, {settings['n_envs']} envs, random actions"],
        ["collect", rate(rates["collect"]), "by the run's own clock, as is update"],
        ["update", rate(rates["update"]), ""],
        [Text("training", style="bold"), Text(rate(rates["whole"]), style="bold"), f"threads {data['threads']}"],
        ["limit", rate(limit["whole"]), f"env and arithmetic alone; training reaches {percent(limit['share'])} of it"],
        [
            "torch's limit",
            rate(limit["torch"]),
            f"env and torch's passes alone; reached: {percent(limit['torch_share'])}",
        ],
    ]
    columns = [Column("what"), Column("steps/s", right=True), Column("", style="dim", drop=1)]
    console.print(table(console, columns, rows))
    console.print()
    shape = " x ".join(map(str, limit["matmul_shape"]))
    shares = sorted(data["shares"].items(), key=lambda item: -item[1])
    console.print(
        facts_grid(
            [
                ("time", ", ".join(f"{name} {percent(share)}" for name, share in shares)),
                ("memory", f"{data['memory_mb']:,.0f} MB at the most"),
                (
                    "arithmetic",
                    f"{limit['flops_per_step'] / 1e6:,.2f} MFLOP a step at {limit['matmul_gflops']:,.1f} GFLOP/s "
                    f"({shape}): {rate(limit['arithmetic'])} steps/s",
                ),
                ("windows", ", ".join(rate(value) for value in data["windows"])),
            ]
        )
    )


def _print_against(console: Console, data: dict[str, Any]) -> None:
    console.print()
    rows: list[list[Cell]] = []
    for name, other in data["against"].items():
        for setting in other["settings"]:
            threads = setting["threads"] or f"{other['default_threads']} (its default)"
            best = Text("best", style="bold green") if setting["rate"] == other["best"] else ""
            rows.append(
                [
                    f"{name} {other['version']}",
                    str(threads),
                    rate(setting["rate"]),
                    Text(times(setting["ratio"]), style="bold"),
                    best,
                ]
            )
    columns = [
        Column("against"),
        Column("threads"),
        Column("steps/s", right=True),
        Column("gymnast is", right=True),
        Column(""),
    ]
    console.print(table(console, columns, rows))


def _print_advice(console: Console, advice: dict[str, Any]) -> None:
    console.print()
    best = advice["best"]
    if best is None:
        console.print("no single change that was measured makes it faster", style="green")
    else:
        console.print(heading(f"{best['change']}: {gain(best['gain'])}"))
        console.print(Text(" ".join(f"--set {setting}" for setting in best["set"]), style="cyan"))
        console.print(Text(best["note"], style="dim"))
    others = [row for row in advice["tried"] if row is not best]
    if others:
        said = ", ".join(f"{row['change']}: {gain(row['gain'])}" for row in others)
        console.print(facts_grid([("also tried", said)]))


def _print_startup(console: Console, startup: dict[str, Any]) -> None:
    console.print()
    rows: list[list[Cell]] = [
        [row["who"], str(row["threads"] or "default"), duration(row["first_update"]), duration(row["whole"])]
        for row in startup["rows"]
    ]
    title = f"{startup['steps']:,} steps, from Enter to"
    columns = [
        Column(title),
        Column("threads"),
        Column("first update", right=True),
        Column("the end", right=True, style="bold"),
    ]
    console.print(table(console, columns, rows))
    for name, share in startup["share_of"].items():
        console.print(Text(f"gymnast takes {share:.2f} of {name}'s time", style="bold"))


def _print_solve(console: Console, solve: dict[str, Any]) -> None:
    console.print()
    rows: list[list[Cell]] = []
    for who, row in solve["rows"].items():
        steps = row["median_steps"]
        rows.append(
            [
                who,
                f"{row['solved']} of {len(row['runs'])}",
                rate(steps) if math.isfinite(steps) else "never",
                Text(duration(row["median_seconds"]), style="bold"),
                ", ".join("never" if run["seconds"] is None else f"{run['seconds']:.2f}" for run in row["runs"]),
            ]
        )
    columns = [
        Column(f"solved: {solve['episodes']} greedy episodes >= {solve['threshold']:g}"),
        Column("seeds", right=True),
        Column("steps, median", right=True),
        Column("training, median", right=True),
        Column("each, s", style="dim", drop=1),
    ]
    console.print(table(console, columns, rows))
    for name, ratio in solve["times_as_fast_as"].items():
        console.print(Text(f"gymnast is {times(ratio)} as fast as {name}", style="bold"))
