"""What `gymnast speed` says to people, with and without `--tune`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast.core.text import or_never
from gymnast.report.charts.text import draw
from gymnast.terminal.format import Cell, Column, facts_grid, heading, output, panel_width, table
from gymnast.verbs.speed.elsewhere import Elsewhere
from gymnast.verbs.speed.results import Speed, Tuning


def print_speed(found: Speed) -> None:
    console = output()
    _print_head(console, found.target, found.machine)
    if found.training:
        _print_training(console, found.training, found.settings["n_envs"])
    if found.startup:
        _print_startup(console, found.startup)
    if found.solve:
        _print_solve(console, found.solve)
    for note in found.notes:
        _warn(console, note)


def print_elsewhere(found: Elsewhere) -> None:
    console = output()
    _print_head(console, found.target, found.machine)
    console.print()
    rows: list[list[Cell]] = [
        [row["where"], str(row["actors"]), rate(row["rate"]), rate(row["each"]), percent(row["of_linear"])]
        for row in found.rows
    ]
    titles = ("actors", "steps/s", "each", "of linear")
    console.print(table(console, [Column("where"), *(Column(title, right=True) for title in titles)], rows))
    for line in draw(found.chart, panel_width(console)) if len(found.rows) > 2 else ():
        console.print(line, soft_wrap=True)
    for call in found.calls:
        console.print(f"a call with {call['bytes']:,.0f} bytes takes {1e3 * call['seconds']:.2f} ms")
    for node in found.nodes:
        console.print(Text(f"on {node}", style="dim"))
    if found.out:
        console.print(f"wrote {found.out}")


def print_tuning(found: Tuning) -> None:
    console = output()
    _print_head(console, found.target, found.machine)
    console.print()
    rows: list[list[Cell]] = []
    for row in found.table:
        marks = [word for word, is_so in (("best", row is found.best), ("as it is", row.current)) if is_so]
        numbers = [str(row.n_envs), str(row.n_steps), str(row.threads or "auto"), rate(row.rate)]
        numbers += [gain(row.gain(found.current)), str(len(row.rates))]
        rows.append([row.engine, *numbers, Text(", ".join(marks), style="bold green")])
    titles = ("n_envs", "n_steps", "threads", "steps/s", "gain")
    columns = [Column("engine"), *(Column(title, right=True) for title in titles)]
    columns += [Column("rounds", right=True, style="dim", drop=1), Column("")]
    console.print(table(console, columns, rows))
    console.print()
    if found.best.current:
        console.print("the current settings are already the fastest", style="green")
    else:
        console.print(_settings(found.best.overrides()))
        if found.best.n_envs != found.current.n_envs:
            console.print("another n_envs changes what is learned from: check that it still learns as well")
    every = found.steps_between_rewards
    if not math.isfinite(every):
        _warn(console, "random actions met no reward: n_steps cannot be judged by the time between two")
    elif found.n_steps_advice:
        _warn(console, f"rewards are {every:,.0f} steps apart: algo.n_steps={found.n_steps_advice} spans that")
    console.print(Text(f"kept in {found.cache} for env.n_envs: auto and env.engine: auto", style="dim"))
    if found.file:
        console.print(f"wrote {found.file}")


def rate(value: float) -> str:
    return f"{value:,.0f}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def gain(value: float) -> str:
    return f"{100 * value:+.0f} %"


def times(value: float) -> str:
    return f"{value:.2f}x" if math.isfinite(value) else "-"


def seconds(value: float) -> str:
    return or_never(value, "{:.2f} s".format)


def _settings(overrides: Sequence[str]) -> Text:
    return Text(" ".join(f"--set {setting}" for setting in overrides), style="cyan")


def _warn(console: Console, text: str) -> None:
    console.print(Text(f"! {text}", style="yellow"))


def _print_head(console: Console, target: str, machine: dict[str, Any]) -> None:
    console.print(Text(target, style="bold"))
    console.print(Text(f"{machine['cpu']}, {machine['cores']} cores", style="dim"))


def _print_training(console: Console, found: dict[str, Any], n_envs: int) -> None:
    rates, limit = found["rates"], found["limit"]
    reached, in_torch = percent(limit["share"]), percent(limit["torch_share"])
    rows: list[list[Cell]] = [
        ["env alone", rate(rates["env"]), f"{found['engine']} engine, {n_envs} envs, random actions"],
        ["collect", rate(rates["collect"]), "by the run's own clock, as is update"],
        ["update", rate(rates["update"]), ""],
        [Text("training", style="bold"), Text(rate(rates["whole"]), style="bold"), f"threads {found['threads']}"],
        ["limit", rate(limit["whole"]), f"env and arithmetic alone; training reaches {reached} of it"],
        ["torch's limit", rate(limit["torch"]), f"env and torch's passes alone; reached: {in_torch}"],
    ]
    columns = [Column("what"), Column("steps/s", right=True), Column("", style="dim", drop=1)]
    console.print()
    console.print(table(console, columns, rows))
    console.print()
    shape = " x ".join(map(str, limit["matmul_shape"]))
    shares = sorted(found["shares"].items(), key=lambda item: -item[1])
    speed = f"{limit['matmul_gflops']:,.1f} GFLOP/s ({shape}): {rate(limit['arithmetic'])} steps/s"
    facts: list[tuple[str, Cell]] = [
        ("time", ", ".join(f"{name} {percent(share)}" for name, share in shares)),
        ("memory", f"{found['memory_mb']:,.0f} MB at the most"),
        ("arithmetic", f"{limit['flops_per_step'] / 1e6:,.2f} MFLOP a step at {speed}"),
        ("windows", ", ".join(map(rate, found["windows"]))),
    ]
    console.print(facts_grid(facts))
    if found["against"]:
        _print_against(console, found["against"])
    if found["advice"]:
        _print_advice(console, found["advice"])


def _print_against(console: Console, against: dict[str, dict[str, Any]]) -> None:
    console.print()
    rows: list[list[Cell]] = [
        [
            f"{name} {other['version']}",
            str(setting["threads"] or f"{other['default_threads']} (its default)"),
            rate(setting["rate"]),
            Text(times(setting["ratio"]), style="bold"),
            Text("best" if setting["rate"] == other["best"] else "", style="bold green"),
        ]
        for name, other in against.items()
        for setting in other["settings"]
    ]
    columns = [Column("against"), Column("threads")]
    columns += [Column("steps/s", right=True), Column("gymnast is", right=True), Column("")]
    console.print(table(console, columns, rows))
    for name, other in against.items():
        if other["compile_seconds"] is not None:
            console.print(Text(f"{name} compiled for {seconds(other['compile_seconds'])} first", style="dim"))


def _print_advice(console: Console, advice: dict[str, Any]) -> None:
    console.print()
    best = advice["best"]
    if best is None:
        console.print("no single change that was measured makes it faster", style="green")
    else:
        console.print(heading(f"{best['change']}: {gain(best['gain'])}"))
        console.print(_settings(best["set"]))
        console.print(Text(best["note"], style="dim"))
    if others := ", ".join(f"{row['change']}: {gain(row['gain'])}" for row in advice["tried"] if row is not best):
        console.print(facts_grid([("also tried", others)]))


def _print_startup(console: Console, startup: dict[str, Any]) -> None:
    console.print()
    rows: list[list[Cell]] = [
        [row["who"], str(row["threads"] or "default"), seconds(row["first_update"]), seconds(row["whole"])]
        for row in startup["rows"]
    ]
    columns = [Column(f"{startup['steps']:,} steps, from Enter to"), Column("threads")]
    columns += [Column("first update", right=True), Column("the end", right=True, style="bold")]
    console.print(table(console, columns, rows))
    for name, share in startup["share_of"].items():
        console.print(Text(f"gymnast takes {share:.2f} of {name}'s time", style="bold"))


def _print_solve(console: Console, solve: dict[str, Any]) -> None:
    console.print()
    rows: list[list[Cell]] = [
        [
            who,
            f"{row['solved']} of {len(row['runs'])}",
            or_never(row["median_steps"], rate),
            Text(seconds(row["median_seconds"]), style="bold"),
            ", ".join("never" if run["seconds"] is None else f"{run['seconds']:.2f}" for run in row["runs"]),
        ]
        for who, row in solve["rows"].items()
    ]
    columns = [Column(f"solved: {solve['episodes']} greedy episodes >= {solve['threshold']:g}")]
    columns += [Column(title, right=True) for title in ("seeds", "steps, median", "training, median")]
    columns += [Column("each, s", style="dim", drop=1)]
    console.print(table(console, columns, rows))
    for name, ratio in solve["times_as_fast_as"].items():
        console.print(Text(f"gymnast is {times(ratio)} as fast as {name}", style="bold"))
