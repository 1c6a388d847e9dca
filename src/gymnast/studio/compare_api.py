"""Several runs over HTTP: their curves, what differs, and why one is better."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from gymnast.core.errors import UserError
from gymnast.core.text import setting
from gymnast.report.charts.model import Curve
from gymnast.report.run_facts import EXACT
from gymnast.report.verdict import judge
from gymnast.studio.answers import Json
from gymnast.studio.runs_api import library_of
from gymnast.studio.series import band, clock_of, columns
from gymnast.verbs.runs.compare import comparison
from gymnast.verbs.runs.plot import SCORES, usual_metric
from gymnast.verbs.runs.reasons import LETTERS
from gymnast.verbs.runs.sides import Side, find_sides, labels, mean_curve, metric_name

MEASURES = {
    "score": "score",
    "exact": "exact value",
    "last": "last value of the curve",
    "area": "mean of the curve",
    "steps_to_threshold": "steps to the threshold",
    "seconds_to_threshold": "seconds to the threshold",
    "steps_per_second": "steps a second",
}


SHORT = 0.98  # of the longest curve of a side: one that ends before has ended earlier


def routes() -> list[Route]:
    return [Route("/api/compare", compare)]


def compare(request: Request) -> Json:
    """?ref=a&ref=b&metric=&axis=&group=seed|none. A ref may be several ids joined by commas: they are one side."""
    query, library = request.query_params, library_of(request)
    refs = [ref for ref in query.getlist("ref") if ref]
    if not refs:
        raise UserError("ref: name at least one run.")
    found = [",".join(library.find(part).id for part in ref.split(",") if part) for ref in refs]
    sides = find_sides(list(dict.fromkeys(found)), library.runs_dir, "none" if query.get("group") == "none" else "seed")
    if len(sides) > len(LETTERS):
        raise UserError(f"{len(sides)} sides are too many. Choose {len(LETTERS)} or fewer.")
    asked = query.get("metric")
    metric = metric_name(asked, sides) if asked else usual_metric(sides)
    names = labels(sides)
    curves = [_curve(side, name, metric, clock_of(query.get("axis"))) for side, name in zip(sides, names, strict=True)]
    compared = comparison(sides)
    data = compared.to_json()
    return Json(
        {
            "metric": metric,
            "metrics": sorted({name for side in sides for facts in side.runs for name in facts.latest}),
            "envs": compared.envs,
            "curves": [
                {"letter": letter, "colour": library.colour_of(curve["ids"][0]), **curve}
                for letter, curve in zip(LETTERS, curves, strict=False)
            ],
            **(_levels(sides) if metric in (*SCORES, EXACT) else dict.fromkeys(("threshold", "target", "optimum"))),
            "differences": [
                {"key": key, "values": [setting(value) for value in values]} for key, values in compared.config.items()
            ],
            "versions": [{"key": key, "values": values} for key, values in compared.versions.items()],
            "alerts": [{"key": key, "values": values} for key, values in compared.alerts.items()],
            "reasons": data["reasons"],
            "history": [line for lines in compared.history for line in lines],
            "measured_on": compared.curve,  # what "the curve" of the measures is
            "measured_until": compared.curve_until,  # env steps that all runs have of it
            "measures": [
                {"name": name, "title": MEASURES.get(name, name), "values": [_said(value) for value in values]}
                for name, values in data["measures"].items()
                if any(value["value"] is not None for value in values)
            ],
        }
    )


def _said(measured: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity, which is what a threshold that was never reached has."""
    return measured | {"value": "never"} if measured["value"] == math.inf else measured


def _curve(side: Side, name: str, metric: str, clock: str) -> dict[str, Any]:
    ids = [facts.info.id for facts in side.runs]
    curves = [facts.curve(metric, clock) for facts in side.runs]
    found = mean_curve(name, curves) or Curve(name)
    line = columns(found.points)
    edges = band(found.band) if found.band and len(found.band) == len(line["x"]) else {}
    end = max((curve[-1][0] for curve in curves if curve), default=0.0)
    ended = [
        {"seed": facts.info.seed, "at": curve[-1][0] if curve else None}
        for facts, curve in zip(side.runs, curves, strict=True)
        if not curve or curve[-1][0] < SHORT * end
    ]
    seeds = [facts.info.seed for facts in side.runs]
    return {"label": name, "ids": ids, "seeds": seeds, "ended": ended, **line, **edges}


def _levels(sides: Iterable[Side]) -> dict[str, float | None]:
    """What scores are measured against, where it is the same for all runs."""
    verdicts = [judge(facts) for side in sides for facts in side.runs]
    return {name: _same(getattr(one, name) for one in verdicts) for name in ("threshold", "target", "optimum")}


def _same(values: Iterable[float | None]) -> float | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None
