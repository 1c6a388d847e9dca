"""What `gymnast tune` says to people."""

from __future__ import annotations

import math
from typing import Any

from rich.text import Text

from gymnast.terminal.format import Cell, Column, output, table
from gymnast.terminal.speed import gain, rate


def print_tune(data: dict[str, Any]) -> None:
    console = output()
    console.print(Text(data["target"], style="bold"))
    console.print(Text(f"{data['machine']['cpu']}, {data['machine']['cores']} cores", style="dim"))
    console.print()
    rows: list[list[Cell]] = []
    for row in data["table"]:
        marks = [word for word, is_so in (("best", row == data["best"]), ("as it is", row["current"])) if is_so]
        rows.append(
            [
                row["engine"],
                str(row["n_envs"]),
                str(row["n_steps"]),
                str(row["threads"] or "auto"),
                rate(row["rate"]),
                gain(row["gain"]),
                str(row["rounds"]),
                Text(", ".join(marks), style="bold green"),
            ]
        )
    columns = [
        Column("engine"),
        Column("n_envs", right=True),
        Column("n_steps", right=True),
        Column("threads", right=True),
        Column("steps/s", right=True),
        Column("gain", right=True),
        Column("rounds", right=True, style="dim", drop=1),
        Column(""),
    ]
    console.print(table(console, columns, rows))
    console.print()
    best = data["best"]
    if best["current"]:
        console.print("it is best as it is", style="green")
    else:
        console.print(Text(" ".join(f"--set {setting}" for setting in best["set"]), style="cyan"))
        if best["n_envs"] != data["current"]["n_envs"]:
            console.print(Text("another n_envs changes what is learned from: look whether it still learns as well"))
    every = data["steps_between_rewards"]
    if not math.isfinite(every):
        console.print(
            Text("! random actions met no reward: n_steps cannot be judged by the time between two", "yellow")
        )
    elif data["n_steps_advice"]:
        console.print(
            Text(f"! rewards are {every:,.0f} steps apart: algo.n_steps={data['n_steps_advice']} spans that", "yellow")
        )
    console.print(Text(f"kept in {data['cache']} for env.n_envs: auto and env.engine: auto", style="dim"))
    if data["file"]:
        console.print(f"wrote {data['file']}")
