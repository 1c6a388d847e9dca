"""Draws docs/console.svg and docs/summary.svg from a run's own files: python docs/picture.py RUN_FOLDER [STEP]

The numbers are those of metrics.jsonl and run.json. STEP chooses the row; without it the last one is drawn.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console, RenderableType

from gymnast.config import load_facts, validate
from gymnast.config.files import parse_yaml
from gymnast.metrics.rows import STEP
from gymnast.runs.references import Run
from gymnast.sinks.console.panels import Dashboard
from gymnast.sinks.jsonl import read_metrics
from gymnast.terminal.summary import summary_panel
from gymnast.verbs.result import Scored

HERE = Path(__file__).parent


def main(folder: str, until: int | None) -> None:
    run = Run.open(folder)
    info, rows = run.read(), read_metrics(run.metrics_path)
    rows = [row for row in rows if until is None or row[STEP] <= until]
    latest: dict[str, float] = {}
    written_at: dict[str, int] = {}
    for row in rows:
        previous = dict(latest)
        latest |= row
        written_at |= dict.fromkeys(row, int(row[STEP]))
    facts = load_facts(info.env)
    threshold = facts.solved.threshold if facts and facts.solved else None
    total = round(latest[STEP] / latest["time/progress"])
    title = f"{info.env} · {info.algo} · seed {info.seed} · {info.id}"
    dashboard = Dashboard(
        row=latest,
        title=title,
        total_steps=total,
        step=int(latest["time/total_timesteps"]),
        elapsed=latest["time/elapsed"],
        previous=previous,
        threshold=threshold,
        remaining=latest["time/elapsed"] * (total / latest[STEP] - 1),
        history=[row["rollout/ep_rew_mean"] for row in rows if "rollout/ep_rew_mean" in row],
        written_at=written_at,
        lines=30,
    )
    draw(dashboard, "console.svg", f"gymnast train {info.env} --seed {info.seed}")
    page = (f"gymnast report {info.token}", "all about this run on a page")
    config = validate(parse_yaml(run.config_path.read_text(), str(run.config_path)).data)
    result = Scored(dict(info.summary), info.id, config, threshold, [page])
    draw(summary_panel(result), "summary.svg", "how a run ends")


def draw(picture: RenderableType, name: str, title: str) -> None:
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(picture)
    svg = console.export_svg(title=title)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # nothing is to be fetched from elsewhere
    svg = svg.replace("Fira Code", "DejaVu Sans Mono")
    svg = "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"
    (HERE / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
