"""Charts and histograms as files, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.statistics import widened
from gymnast.report.charts.model import Chart


def save_charts(path: Path, charts: Sequence[Chart], title: str) -> None:
    """One below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.4 + 4.5 * len(charts)), layout="constrained")
    figure.suptitle(title, fontweight="bold")
    for axes, chart in zip(figure.subplots(len(charts), squeeze=False)[:, 0], charts, strict=True):
        _draw(axes, chart)
    figure.savefig(path, dpi=120)


def _draw(axes: Any, chart: Chart) -> None:
    for index, curve in enumerate(chart.curves):
        colour = f"C{index}"
        label = f"{curve.name} ({len(curve.runs)} runs)" if curve.runs else curve.name
        marker = "o" if len(curve.points) < 3 else ""
        axes.plot(*zip(*curve.points, strict=True), color=colour, label=label, marker=marker)
        if curve.band:
            axes.fill_between(*zip(*curve.band, strict=True), color=colour, alpha=0.2, linewidth=0)
    for level, style in zip(chart.levels, cycle(("--", ":")), strict=False):
        axes.axhline(level.value, color="0.4", linestyle=style, linewidth=1.2, label=level.name)
    low, high = axes.dataLim.intervaly  # lines across included
    axes.set(xlabel=chart.unit, ylabel=chart.title, ylim=widened(low, high, margin=0.06))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.13), ncols=2, frameon=False)  # below the curves, not on them
    axes.xaxis.set_major_formatter("{x:,g}")


def save_histograms(path: Path, title: str, samples: Mapping[str, NDArray[np.float64]]) -> None:
    """Side by side. Counts are logarithmic, so that what is rare can be seen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(samples), 3.6), layout="constrained")
    figure.suptitle(title)
    for axes, (subject, values) in zip(figure.subplots(1, len(samples)), samples.items(), strict=True):
        axes.hist(values, bins=50, color="#2a7f9e")
        axes.set(xlabel=subject, ylabel="count", yscale="log" if len(values) else "linear")
    figure.savefig(path, dpi=120)
