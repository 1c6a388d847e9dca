"""The page about a run for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gymnast.report.charts.model import thinned
from gymnast.report.files import files_of, videos_of
from gymnast.report.next_steps import next_steps
from gymnast.report.run_facts import EVALUATION, RETURN, RunFacts
from gymnast.report.verdict import judge, meaning

POINTS = 100  # of a curve; a longer one is thinned out


def to_json(facts: RunFacts) -> dict[str, Any]:
    info = facts.info
    changed = facts.changed
    curves = {name: facts.curve(name) for name in (RETURN, EVALUATION, *facts.worth_a_look)}
    return {
        "run": info.id,
        "env": info.env,
        "algo": info.algo,
        "variant": info.variant,
        "seed": info.seed,
        "status": info.status,
        "parent": info.parent,
        "resumed_at": info.resumed_at,
        "env_steps": facts.env_steps,
        "seconds": facts.seconds,
        "verdict": asdict(judge(facts)) | {"meaning": meaning(judge(facts), facts)},
        "crash": facts.crash,
        "next": [step._asdict() for step in next_steps(facts)],
        "curves": {name: thinned(points, POINTS) for name, points in curves.items() if points},
        "metrics": facts.latest,
        "alerts": [alert.to_json() for alert in facts.alerts] if facts.watched else None,
        "seconds_by_phase": facts.time_budget,
        "preset": facts.preset,
        "changed": None if changed is None else [{"key": d.key, "preset": d.a, "run": d.b} for d in changed],
        "versions": info.versions,
        "machine": info.machine,
        "host": info.host,
        "command": info.command,
        "files": [{"path": name, "what": what} for name, what in [*files_of(facts), *videos_of(facts)]],
        "problems": facts.problems,
    }
