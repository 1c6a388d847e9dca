"""What a benchmark has found out, on the disk.

    benchmarks/
      runs/TARGET-CONFIG/WHO-sSEED.json   one finished run each, written the moment it ends; nothing else is needed
      results.json                        all of them and the rows that asked for them: small, fit for a repository
      RESULTS.md, pictures/               made from results.json

A run counts for a row if it had the row's config. Runs of a config that has changed since stay, and count until there
is one of the new config.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.core.files import numbers_to_json, write_atomic, write_json
from gymnast.core.machine import cores, cpu_model
from gymnast.core.statistics import interval, mean
from gymnast.verbs.benchmark.plan import OURS, Row, Task, checked

RESULTS = "results.json"
DIGITS = 6  # of a score: what is beyond that is noise and space

Record = dict[str, Any]
Key = tuple[str, str, str, int]


def key_of(record: Record) -> Key:
    return record["target"], record["config"], record["who"], record["seed"]


def slug(text: str) -> str:
    return re.sub(r"[^\w.=-]+", "_", text)


class Store:
    """The rows that were asked for and the runs that are done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[tuple[Any, ...], tuple[Row, str]] = {}  # the row and its config's fingerprint
        self.records: dict[Key, Record] = {}
        saved = _read(folder / RESULTS) if (folder / RESULTS).is_file() else {}
        for item in saved.get("rows", []):
            row: Row = checked(Row, {key: item[key] for key in item if key != "config"}, str(folder / RESULTS))
            self.rows[row.key] = row, item["config"]
        files = sorted((folder / "runs").glob("*/[!.]*-s*.json"))  # not a run's own, where it lies in the same folder
        for record in [*saved.get("results", []), *map(_read, files)]:
            self.records[key_of(record)] = record

    def ask(self, tasks: Iterable[Task], first: bool = False) -> None:
        """These rows belong to it from now on; a whole plan's come first and in its order."""
        new = {task.row.key: (task.row, self._counting(task)) for task in tasks}
        self.rows = {**new, **self.rows, **new} if first else {**self.rows, **new}

    def _counting(self, task: Task) -> str:
        """The config whose runs count for the row of a task."""
        _, before = self.rows.get(task.row.key, (task.row, task.fingerprint))
        has_new = any(key[:2] == (task.row.target, task.fingerprint) for key in self.records)
        return task.fingerprint if has_new else before

    def forget(self, task: Task) -> None:
        for key in [key for key in self.records if key[:2] == (task.row.target, task.fingerprint)]:
            del self.records[key]
            self._path(key).unlink(missing_ok=True)

    def has(self, task: Task, who: str, seed: int) -> bool:
        return (task.row.target, task.fingerprint, who, seed) in self.records

    def keep(self, record: Record) -> None:
        """On the disk before it counts."""
        path = self._path(key_of(record))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
        self.records[key_of(record)] = record

    def _path(self, key: Key) -> Path:
        target, config, who, seed = key
        return self.folder / "runs" / f"{slug(target)}-{config}" / f"{who}-s{seed}.json"

    def runs_of(self, row: Row, config: str) -> dict[str, list[Record]]:
        """By who has run them, ours first, each by seed."""
        found = [record for key, record in sorted(self.records.items()) if key[:2] == (row.target, config)]
        names = [OURS, *sorted({record["who"] for record in found} - {OURS})]
        return {name: [record for record in found if record["who"] == name] for name in names}

    def save(self) -> Path:
        """A run a line: small, and two versions of it can be compared."""
        path = self.folder / RESULTS
        rows = [{**row.model_dump(exclude_defaults=True), "config": config} for row, config in self.rows.values()]
        results = [record for _, record in sorted(self.records.items())]
        parts = []
        for name, items in (("rows", rows), ("results", results)):
            lines = ",\n".join(json.dumps(numbers_to_json(item), allow_nan=False) for item in items)
            parts.append(f'"{name}": [\n{lines}\n]')
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, ("{" + ",\n".join(parts) + "}\n").encode())
        return path


def _read(path: Path) -> Record:
    try:
        data: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}. Mend or remove it.") from None
    return data


def make_record(
    task: Task,
    who: str,
    seed: int,
    done: dict[str, Any],
    notes: list[str],
    nodes: Sequence[str] = (),
    run: str | None = None,
) -> Record:
    """What is kept of a run, from what its process has reported. `nodes`: of a cluster, that trained it one after the
    other. `run`: the id of ours."""
    config = task.config
    solved = done["solved_at"]
    return {
        "target": task.row.target,
        "env": config.env.id,
        "algo": config.algo.name,
        "who": who,
        "seed": seed,
        "config": task.fingerprint,
        "total_timesteps": config.train.total_timesteps,
        "n_envs": config.env.n_envs,
        "env_steps": done["env_steps"],
        "seconds": _short(done["seconds"]),
        "threshold": task.threshold,
        "solved": solved is not None,
        "solved_steps": None if solved is None else solved[0],
        "solved_seconds": None if solved is None else _short(solved[1]),
        "wall": _known(done.get("wall")),  # with evaluations and verdicts
        "solved_wall": _known(done.get("solved_wall")),
        "goal": done.get("goal"),  # stop.target, what training goes on for beyond solved
        "on_target": done.get("on_target"),
        "verdict": _score(done["verdict"]),
        "final": _score(done["final"]),
        "exact_value": done.get("exact_value"),
        "curve": [[steps, _short(score), _short(seconds)] for steps, score, seconds in done["curve"]],
        "notes": notes,
        "versions": done["versions"],
        "machine": done.get("machine") or {"cpu": cpu_model(), "cores": cores()},
        **({"run": run} if run else {}),
        **({"nodes": list(nodes)} if nodes else {}),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _score(returns: list[float] | None) -> dict[str, float] | None:
    if returns is None:
        return None
    low, high = interval(mean, returns)
    scores = {"mean": _short(mean(returns)), "low": _short(low), "high": _short(high)}
    return {**scores, "episodes": len(returns)}


def _known(value: float | None) -> float | None:
    return None if value is None else _short(value)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
