"""CONTRIBUTING's recipes for sinks and launchers, followed to the letter: a file and a registry line, and they work."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from gymnast.core import registry
from gymnast.core.registry import Registry
from gymnast.jobs.pool import run_all
from gymnast.jobs.worker import LOWEST_PRIORITY, Job
from gymnast.metrics.rows import STEP
from gymnast.runs.references import resolve
from gymnast.sinks.jsonl import read_metrics
from gymnast.verbs.train import start

CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def follow(title: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Registry, str]:
    """Writes the recipe's file, adds its line to the registry it names, and returns both by name.

    The file lies in a folder that is made part of the package for this test.
    """
    text = CONTRIBUTING.split(f"## {title}\n")[1].split("\n## ")[0]
    file, line = BLOCK.findall(text)
    ((name, target),) = ast.literal_eval(f"{{{line}}}").items()
    module = target.split(":")[0]
    assert f"`src/{module.replace('.', '/')}.py`" in text  # where the recipe says that the file lies
    package, _, stem = module.rpartition(".")
    (folder / f"{stem}.py").write_text(file, encoding="utf-8")
    part_of = importlib.import_module(package)
    monkeypatch.setattr(part_of, "__path__", [*part_of.__path__, str(folder)])
    (where,) = re.findall(r"The line, in `(\w+)` of `src/gymnast/core/registry.py`", text)
    known: Registry = getattr(registry, where)
    monkeypatch.setattr(known, "_entries", {**known._entries, name: target})
    return known, name


def test_add_a_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, name = follow("Add a sink", tmp_path, monkeypatch)
    settings = ["env.n_envs=4", "algo.n_steps=32", "algo.batch_size=64", "log.every=128", "eval.episodes=2"]
    settings += ["stop.episodes=2", f"log.sinks=[jsonl, {name}]"]
    start("CartPole-v1", settings, tmp_path / "runs", steps=512, quiet=True)
    run = resolve("@last", tmp_path / "runs")
    rows = read_metrics(run.metrics_path)
    assert [row[STEP] for row in rows] == [128, 256, 384, 512]
    lines = [line.split() for line in (run.path / "scores.txt").read_text().splitlines()]
    assert [int(step) for step, _ in lines] == [128, 256, 384, 512]
    assert [float(score) for _, score in lines] == [row["rollout/ep_rew_mean"] for row in rows]
    assert "gets no more rows" not in run.log_path.read_text()


def test_add_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, name = follow("Add a launcher", tmp_path, monkeypatch)
    launcher = known.get(name)()
    job = Job("tests.jobs_for_tests:surroundings", packages=("tests",))
    *_, last = launcher.run(job)
    assert last.kind == "result"
    assert last.data["niceness"] == LOWEST_PRIORITY
    jobs = {number: Job("tests.jobs_for_tests:double", {"number": number}, packages=("tests",)) for number in range(3)}
    events = list(run_all(list(jobs), 2, lambda number: launcher.run(jobs[number])))
    assert {number: event.data["double"] for number, event in events if event.kind == "result"} == {0: 0, 1: 2, 2: 4}
