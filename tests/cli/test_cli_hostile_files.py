"""A damaged or hostile file in a run's folder: one line with file and reason, and the other runs are there as ever."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import gymnast
from gymnast.core.errors import UserError
from gymnast.runs import checkpoint
from tests.cli.conftest import Command, Trained, assert_answered
from tests.hostile import SPECIAL, mutated, mutated_checkpoint, mutated_json, put_special

FILES = (
    "run.json",
    "metrics.jsonl",
    "alerts.json",
    "config.yaml",
    "diagnostics.jsonl",
    "log.txt",
    "checkpoints/best.json",
)
KEPT_CHECKPOINTS = ("best", "last")


@pytest.fixture(scope="module")
def pristine(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs_dir = tmp_path_factory.mktemp("hostile") / "runs"
    shutil.copytree(trained.runs_dir, runs_dir)
    return runs_dir


@pytest.fixture
def runs(pristine: Path) -> Iterator[tuple[Path, Path, str]]:
    """The folder of runs, the run whose files suffer, and the token of the other one."""
    victim, other = sorted(pristine.iterdir())
    whole = {path: path.read_bytes() for path in victim.rglob("*") if path.is_file()}
    yield pristine, victim, other.name.split("-")[0]
    for path in pristine.iterdir():  # the victim, and what was resumed from it
        if path != other:
            shutil.rmtree(path)
    for path, data in whole.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def verbs(runs_dir: Path, victim: Path, out: Path) -> list[list[str]]:
    token = victim.name.split("-")[0]
    calls = [
        ["runs", "show", token],
        ["runs", "show", token, "--json"],
        ["report", token],
        ["report", token, "--json"],
        ["report", token, "--html", "--out", str(out / "x.html")],
        ["runs", "compare", "@all"],
        ["runs", "compare", "@all", "--json"],
        ["runs", "plot", "@all"],
        ["runs", "plot", "@all", "--metric", "approx_kl", "--x", "seconds"],
        ["runs", "zip", token, "--out", str(out / "x.zip")],
    ]
    return [[*words, "--runs-dir", str(runs_dir)] for words in calls]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FILES)
def test_mutated_files(call: Command, runs: tuple[Path, Path, str], tmp_path: Path, name: str, seed: int) -> None:
    runs_dir, victim, other = runs
    file, rng = victim / name, random.Random(f"{name} {seed}")
    raw = file.read_bytes() or b"2026-01-01 00:00:00 nothing\n"
    for number in range(6):
        file.write_bytes(mutated(raw, rng))
        listed = call("runs", "list", "--runs-dir", runs_dir)
        assert listed.code == 0
        assert other in listed.out
        assert victim.name.split("-")[0] in listed.out
        words = rng.choice(verbs(runs_dir, victim, tmp_path))
        assert_answered(call(*words), f"{name}, mutation {number} of seed {seed}, {words[:3]}")


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", [*FILES, "lock", "checkpoints/best.safetensors"])
def test_special_files(call: Command, runs: tuple[Path, Path, str], tmp_path: Path, name: str, kind: str) -> None:
    runs_dir, victim, other = runs
    put_special(victim / name, kind)
    listed = call("runs", "list", "--runs-dir", runs_dir)
    assert (listed.code, other in listed.out) == (0, True)
    for words in verbs(runs_dir, victim, tmp_path)[:6:2]:
        assert_answered(call(*words), f"{name} as {kind}, {words[:3]}")


@pytest.mark.parametrize("seed", range(4))
def test_mutated_checkpoints(call: Command, runs: tuple[Path, Path, str], seed: int) -> None:
    """Those whose checksum is wrong, and others that are whole but hold what no run ever was."""
    runs_dir, victim, _ = runs
    rng, token = random.Random(seed), victim.name.split("-")[0]
    files = [victim / "checkpoints" / f"{name}.safetensors" for name in KEPT_CHECKPOINTS]
    whole = files[1].read_bytes()
    saved = checkpoint.load(files[1])
    for number in range(8):
        if number % 2:
            files[1].write_bytes(whole)
            state, tensors = mutated_json(saved.state, rng), dict(saved.tensors)
            if rng.random() < 0.5:
                state = saved.state
                name = rng.choice(list(tensors))
                flat = tensors[name].reshape(-1)
                tensors[name] = rng.choice([flat[:0], flat.double(), flat.reshape(1, -1), flat.bool()])
            try:
                checkpoint.save(files[1], tensors, state if isinstance(state, dict) else {}, saved.metrics)
            except (TypeError, ValueError):  # no JSON: nothing that a file could hold
                continue
            files[0].write_bytes(files[1].read_bytes())
        else:
            for file in files:
                file.write_bytes(mutated_checkpoint(whole, rng))
        case = f"checkpoint {number} of seed {seed}"
        assert_answered(call("runs", "show", token, "--runs-dir", runs_dir), case)
        assert_answered(call("eval", f"{token}/best", "--episodes", "1", "--runs-dir", runs_dir), case)
        # in this process a resumed run would train: one without budget is refused or restored, and ends
        resumed = call("resume", f"{token}/last", "--steps", "1025", "--quiet", "--runs-dir", runs_dir)
        assert_answered(resumed, case)


STATES = {
    "about is no object": {"about": "object"},
    "judge has no seen": {"judge": {"seen": {"low": 0.0}}},
    "judge is no object": {"judge": [1]},
    "counters are none": {"counters": "many"},
}


@pytest.mark.parametrize("change", STATES.values(), ids=list(STATES))
def test_a_state_that_no_run_ever_had_is_one_line(
    call: Command, runs: tuple[Path, Path, str], change: dict[str, Any]
) -> None:
    """With a right checksum."""
    runs_dir, victim, _ = runs
    path, token = victim / "checkpoints" / "last.safetensors", victim.name.split("-")[0]
    saved = checkpoint.load(path)
    checkpoint.save(path, saved.tensors, saved.state | change, saved.metrics)
    words = [f"{token}/last", "--episodes", "1", "--runs-dir", str(runs_dir)]
    outcome = call("eval", *words)
    assert_answered(outcome, "eval")
    assert (outcome.code, "cannot use checkpoint" in outcome.err) == ((0, False) if "counters" in change else (2, True))
    with pytest.raises(UserError, match="cannot use checkpoint") if "about" in change else nullcontext():
        gymnast.load(path)
    resumed = call("resume", f"{token}/last", "--steps", "1025", "--quiet", "--runs-dir", runs_dir)
    assert_answered(resumed, "resume")


def test_weights_that_are_not_finite_are_one_line(call: Command, runs: tuple[Path, Path, str], tmp_path: Path) -> None:
    runs_dir, victim, _ = runs
    path, token = victim / "checkpoints" / "last.safetensors", victim.name.split("-")[0]
    saved = checkpoint.load(path)
    tensors = {name: one * float("nan") if "weight" in name else one for name, one in saved.tensors.items()}
    checkpoint.save(path, tensors, saved.state, saved.metrics)
    where = ("--runs-dir", runs_dir)
    for words in (
        ("eval", f"{token}/last", "--episodes", "1"),
        ("resume", f"{token}/last", "--steps", "2048", "--quiet"),
        ("video", f"{token}/last", "--out", tmp_path / "x.mp4"),
        ("train", "CartPole-v1", "--init-from", f"{token}/last", "--quiet", "--steps", "2048"),
    ):
        outcome = call(*words, *where)
        assert_answered(outcome, words[0], code=2)
        assert "weights that are not finite" in outcome.err


def test_a_damaged_run_is_listed_named_and_deleted(call: Command, runs: tuple[Path, Path, str]) -> None:
    runs_dir, victim, other = runs
    token = victim.name.split("-")[0]
    (victim / "run.json").write_text('{"pid": "many"}')
    listed = call("runs", "list", "--runs-dir", runs_dir)
    assert "damaged" in next(line for line in listed.out.splitlines() if token in line)
    assert f"gymnast: {victim / 'run.json'}: pid cannot be 'many'." in listed.err
    shown = call("runs", "show", token, "--runs-dir", runs_dir)
    assert (shown.code, "pid cannot be 'many'" in shown.err) == (2, True)
    assert call("runs", "show", "@last", "--runs-dir", runs_dir).out.startswith(other)
    assert call("runs", "delete", token, "--yes", "--runs-dir", runs_dir).code == 0
    assert not victim.exists()


def test_metrics_that_are_unknown_are_counted(call: Command, runs: tuple[Path, Path, str], tmp_path: Path) -> None:
    """In rows and in what an alert points at: of another version, or of nobody."""
    runs_dir, victim, _ = runs
    metrics, alerts = victim / "metrics.jsonl", victim / "alerts.json"
    rows = [json.loads(line) | {"no/such": 1.0, "nor_this": 2.0} for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = {"rule": "odd", "severity": "error", "since": 1, "last": 2, "count": 1, "firing": True}
    said = {
        "message": "m",
        "cause": "c",
        "evidence": {"not/either": {"value": 1}, "train/loss": {"value": 2, "high": 1}},
    }
    alerts.write_text(json.dumps({"alerts": [found | said]}))
    shown = call("runs", "show", victim.name, "--json", "--runs-dir", runs_dir)
    assert_answered(shown, "show", code=0)
    problems = {f"{metrics}: 2 of its metrics are unknown", f"{alerts}: 1 of its metrics is unknown"}
    assert set(shown.json["problem"].split("; ")) == problems
    assert list(shown.json["alerts"][0]["evidence"]) == ["train/loss"]
    for words in verbs(runs_dir, victim, tmp_path):
        assert_answered(call(*words), " ".join(words[:2]), code=0)


def test_lines_that_cannot_be_read_are_counted(call: Command, runs: tuple[Path, Path, str]) -> None:
    runs_dir, victim, _ = runs
    metrics = victim / "metrics.jsonl"
    metrics.write_bytes(b"\xff\n" + metrics.read_bytes() + b'{"time/total_timesteps": "NaN"}\n{"half')
    shown = call("runs", "show", victim.name, "--json", "--runs-dir", runs_dir)
    assert shown.json["problem"] == f"{metrics}: 2 of its lines cannot be read"  # the half line at the end is usual
