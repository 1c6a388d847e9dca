"""metrics.jsonl, CSV, W&B, trackio and TensorBoard agree number for number, also in a run that was resumed."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import sqlite3
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gymnast.config import RunConfig
from gymnast.runs.references import Run
from gymnast.sinks import SinkGroup
from gymnast.sinks.jsonl import STEP, JsonlSink, read_lines, read_metrics
from gymnast.sinks.trackers.sink import TrackerSink
from gymnast.training.build import build
from gymnast.training.record import new_run, record
from gymnast.verbs.train import resume
from tests.invariants.conftest import small_config
from tests.invariants.test_resume import interrupt_after
from tests.invariants.wandb_file import wandb_history, wandb_records
from tests.processes import wait_for
from tests.sinks_for_tests import run_info

for package in ("wandb", "trackio", "tensorboard"):
    pytest.importorskip(package)
TRACKERS = ["wandb", "trackio", "tensorboard"]


def tracked_config(*sinks: str) -> RunConfig:
    # The learning rate is far too high: there is an alert to track. 2,048 steps in rollouts of 128: 16 rows.
    return small_config(
        algo={"learning_rate": 1.0},
        train={"total_timesteps": 2048},
        eval={"every": 512},
        log={"every": 128, "sinks": ["jsonl", *sinks]},
    )


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nothing of the developer's own trackers is touched, and there is no network to ask for."""
    home = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        for name in ("DATA", "CACHE", "CONFIG", "ARTIFACT"):
            patch.setenv(f"WANDB_{name}_DIR", str(home / "wandb"))
        patch.setenv("TRACKIO_DIR", str(home / "trackio"))
        patch.setenv("NETRC", str(home / "no-netrc"))
        for name in ("WANDB_API_KEY", "WANDB_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
            patch.delenv(name, raising=False)
        yield home


@pytest.fixture(scope="module")
def run(homes: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Interrupted after 5 of its 16 rows, and resumed to the end."""
    runs_dir = tmp_path_factory.mktemp("runs")
    config = tracked_config("csv", *TRACKERS)
    session = build(config, None)
    run = new_run(config, None, runs_dir)
    assert record(session, run, quiet=True, observer=interrupt_after(5)).stop_reason == "interrupted"
    session.close()
    assert resume(run.id, [], runs_dir, quiet=True).data["env_steps"] == 2048
    return run


@pytest.fixture(scope="module")
def rows(run: Run) -> list[dict[str, float]]:
    rows = read_metrics(run.metrics_path)
    assert [row[STEP] for row in rows] == [128.0 * number for number in range(1, 17)]
    return rows


def same(value: float, other: float) -> bool:
    return value == other or (math.isnan(value) and math.isnan(other))


def agree(truth: list[dict[str, float]], found: list[dict[str, float]]) -> None:
    """The same rows, with the same names, and the same numbers to the last bit."""
    assert [row[STEP] for row in found] == [row[STEP] for row in truth]
    for expected, got in zip(truth, found, strict=True):
        assert expected.keys() == got.keys()
        assert [name for name in expected if not same(expected[name], got[name])] == []


def test_no_tracker_failed(run: Run) -> None:
    assert [line for line in run.log_path.read_text().splitlines() if "gets no more rows" in line] == []


def test_csv_agrees(run: Run, rows: list[dict[str, float]]) -> None:
    with open(run.path / "metrics.csv", newline="") as file:
        cells = [{name: float(cell) for name, cell in row.items() if cell} for row in csv.DictReader(file)]
    agree(rows, cells)


def wandb_files(run: Run) -> list[Path]:
    return sorted((run.path / "trackers" / "wandb").glob("offline-run-*/*.wandb"))


def wandb_logs(run: Run) -> list[dict[str, Any]]:
    return [row for path in wandb_files(run) for row in wandb_history(path)]


def test_wandb_agrees(run: Run, rows: list[dict[str, float]]) -> None:
    logs = wandb_logs(run)
    own = ("histograms/", "actions/", "checkpoints/", "videos/")
    scalars = [row for row in logs if not any(name.startswith(own) for name in row)]
    found = [{name: float(value) for name, value in row.items() if name != "_step"} for row in scalars]
    agree(rows, found)
    counts = [row["_step"] for row in logs]  # both parts, one after the other
    assert counts == sorted(set(counts))
    assert all(STEP in row for row in logs)  # one step key, whatever is logged


def test_wandb_has_names_config_histograms_alerts_checkpoints_and_artifacts(run: Run, homes: Path) -> None:
    logs, parts = wandb_logs(run), wandb_files(run)
    assert len(parts) == 2
    records = [record for path in parts for record in wandb_records(path)]
    opened = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert {(one.run_id, one.display_name, one.project) for one in opened} == {
        (run.id, f"ppo-{run.id.split('-')[0]}", "gymnast")
    }
    config = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in opened[0].config.update}
    assert config["algo"]["learning_rate"] == 1.0
    lines = read_lines(run.diagnostics_path)
    histograms = [row for row in logs if "histograms/value" in row]
    assert [row[STEP] for row in histograms] == [line[STEP] for line in lines]
    assert histograms[0]["histograms/value"]["values"] == lines[0]["histograms"]["value"]["counts"]
    assert histograms[0]["histograms/value"]["bins"] == lines[0]["histograms"]["value"]["edges"]
    assert {name for row in logs for name in row if name.startswith("checkpoints/")} == {
        "checkpoints/best",
        "checkpoints/last",
    }
    alerts = [record.alert.title for record in records if record.WhichOneof("record_type") == "alert"]
    kept = [alert["rule"] for alert in json.loads(run.alerts_path.read_text())["alerts"]]
    assert sorted(alerts) == sorted(kept)
    assert alerts
    assert [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"] == [0, 0]
    artifacts = [
        record.request.log_artifact.artifact
        for record in records
        if record.WhichOneof("record_type") == "request" and record.request.WhichOneof("request_type") == "log_artifact"
    ]
    artifacts += [record.artifact for record in records if record.WhichOneof("record_type") == "artifact"]
    assert {(one.name, one.type) for one in artifacts} == {(f"{run.id}-best", "model"), (f"{run.id}-run", "run")}
    paths = {entry.path: entry.local_path for one in artifacts for entry in one.manifest.contents}
    assert {"best.safetensors", "best.json", "config.yaml", f"{run.id}.zip"} <= paths.keys()
    with zipfile.ZipFile(paths[f"{run.id}.zip"]) as archive:  # of the end of the run, without what trackers keep
        assert json.loads(archive.read(f"{run.id}/run.json"))["status"] == "finished"
        assert not [name for name in archive.namelist() if "/trackers/" in name]


def test_trackio_agrees(run: Run, rows: list[dict[str, float]], homes: Path) -> None:
    with sqlite3.connect(homes / "trackio" / "gymnast.db") as database:
        stored = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY step, id").fetchall()
        alerts = database.execute("SELECT title FROM alerts").fetchall()
    assert {name for name, _, _ in stored} == {f"ppo-{run.id.split('-')[0]}"}
    logs = [(step, json.loads(text)) for _, step, text in stored]
    scalars = [log for _, log in logs if STEP in log]
    agree(rows, [{name: float(value) for name, value in log.items()} for log in scalars])
    assert [step for step, log in logs if STEP in log] == [row[STEP] for row in rows]
    assert len([log for _, log in logs if "histograms/value" in log]) == len(read_lines(run.diagnostics_path))
    assert len(alerts) == len(json.loads(run.alerts_path.read_text())["alerts"])


def test_tensorboard_agrees(run: Run, rows: list[dict[str, float]]) -> None:
    """TensorBoard keeps 32-bit floats: the number is the row's, rounded to one."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "trackers" / "tensorboard"), {"scalars": 0, "histograms": 0, "tensors": 0})
    events.Reload()
    assert set(events.Tags()["scalars"]) == {name for row in rows for name in row}
    for name in events.Tags()["scalars"]:
        expected = [(row[STEP], float(np.float32(row[name]))) for row in rows if name in row]
        found = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert all(same(a, b) for (_, a), (_, b) in zip(found, expected, strict=True)), name
    assert len(events.Histograms("histograms/value")) == len(read_lines(run.diagnostics_path))
    assert [tag for tag in events.Tags()["tensors"] if tag.startswith("alerts/")]


def test_tensorboard_takes_back_what_a_lost_part_wrote(homes: Path, tmp_path: Path) -> None:
    """Killed at 300 with a checkpoint of 200: the rows of 250 and 300 are gone, and others come in their place."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def part(start: int, written: dict[int, float]) -> None:
        JsonlSink.truncate(tmp_path / "metrics.jsonl", start)
        tracker = TrackerSink("tensorboard", run_info(tmp_path, id="x-x", start_step=start), print, 300.0)
        group = SinkGroup([JsonlSink(run_info(tmp_path)), tracker], pytest.fail)
        for step, value in written.items():
            group.write(step, {"train/loss": value})
        group.close()

    part(0, {100: 1.0, 200: 2.0, 250: 2.5, 300: 3.0})
    part(200, {300: 30.0, 400: 40.0})
    events = EventAccumulator(str(tmp_path / "trackers" / "tensorboard"))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("train/loss")] == [(100, 1), (200, 2), (300, 30), (400, 40)]


def test_wandb_that_loses_its_service_costs_one_warning(homes: Path, tmp_path: Path) -> None:
    """wandb-core, which writes and uploads, is killed in the middle of a run."""
    (tmp_path / "run.json").write_text("{}")
    warnings: list[str] = []
    tracker = TrackerSink("wandb", run_info(tmp_path, id="x-x"), print, 300.0)
    group = SinkGroup([JsonlSink(run_info(tmp_path)), tracker], warnings.append)
    group.write(100, {"train/loss": 1.0})
    steps = tmp_path / "trackers" / "wandb" / "steps.txt"
    wait_for(lambda: steps.exists() and steps.read_text(), "row in wandb")
    assert tracker._worker is not None
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    core = [int(pid) for pid, parent, name in map(str.split, listed.splitlines()) if int(parent) == tracker._worker.pid]
    assert core
    for pid in core:
        os.kill(pid, signal.SIGKILL)
    for step in range(200, 1000, 100):
        group.write(step, {"train/loss": 1.0})
        time.sleep(0.05)
    group.close()
    assert len(warnings) == 1
    assert warnings[0].startswith("wandb ")
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 9


@pytest.mark.parametrize("key", [None, "not-a-key"])
def test_wandb_without_a_good_key_is_offline_and_says_so_once(
    key: str | None, homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE")
    if key is not None:
        monkeypatch.setenv("WANDB_API_KEY", key)
    (tmp_path / "run.json").write_text('{"summary": {}}')
    notes: list[str] = []
    tracker = TrackerSink("wandb", run_info(tmp_path, id="x-x"), notes.append, 300.0)
    tracker.write(100, {"train/loss": 1.0})
    tracker.end("finished")
    tracker.close()
    said = [note for note in notes if note.startswith("wandb: offline (")]
    assert len(said) == 1
    assert f"wandb sync {tmp_path}/trackers/wandb/offline-run-*" in said[0]
    assert "not-a-key" not in "".join(notes) + (tmp_path / "trackers" / "wandb.log").read_text()
    path = next((tmp_path / "trackers" / "wandb").glob("offline-run-*/*.wandb"))
    assert wandb_history(path)[0]["train/loss"] == 1.0


def test_videos_are_copied_and_stand_at_their_step(homes: Path, tmp_path: Path) -> None:
    """A video of step 100 comes after the row of 200: its place on the axis is 100 all the same."""
    path = tmp_path / "best.mp4"
    path.write_bytes(b"not a video, but a file")
    (tmp_path / "run.json").write_text('{"summary": {}}')
    warnings: list[str] = []
    tracked = run_info(tmp_path, id="v1d30-x")
    group = SinkGroup([TrackerSink(name, tracked, print, 300.0) for name in ("wandb", "trackio")], warnings.append)
    group.write(100, {STEP: 100.0})
    group.write(200, {STEP: 200.0})
    group.video(100, path)
    group.close()
    assert warnings == []
    part = next((tmp_path / "trackers" / "wandb").glob("offline-run-*"))
    shown = wandb_history(next(part.glob("*.wandb")))[-1]
    assert shown[STEP] == 100
    assert (part / "files" / shown["videos/best"]["path"]).read_bytes() == path.read_bytes()
    with sqlite3.connect(homes / "trackio" / "gymnast.db") as database:
        stored = database.execute("SELECT metrics FROM metrics WHERE run_name = 'ppo-v1d30' AND step = 100 ORDER BY id")
        text = stored.fetchall()[-1][0]
    copied = homes / "trackio" / "media" / json.loads(text)["videos/best"]["file_path"]
    assert copied.read_bytes() == path.read_bytes()


def test_trackio_that_cannot_write_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never raises by itself: it warns and drops rows. Here a folder lies where its database should be."""
    (tmp_path / "trackio" / "gymnast.db").mkdir(parents=True)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    warnings: list[str] = []
    tracker = TrackerSink("trackio", run_info(tmp_path, id="x-x"), print, 300.0)
    group = SinkGroup([tracker], warnings.append)
    group.write(100, {"train/loss": 1.0})
    group.close()
    assert len(warnings) == 1
    assert warnings[0].startswith("trackio failed: RuntimeError: trackio")
