"""Trackers cannot hurt a run: whatever they do, it finishes with its numbers and one warning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.errors import UserError
from gymnast.core.machine import is_installed
from gymnast.core.registry import SINKS
from gymnast.sinks import SinkGroup
from gymnast.sinks.base import RunInfo
from gymnast.sinks.csv import CsvSink
from gymnast.sinks.jsonl import JsonlSink
from gymnast.sinks.trackers.sink import MOST_BEHIND, TrackerSink, require_sinks
from tests import trackers_for_tests
from tests.processes import wait_for
from tests.sinks_for_tests import run_info

ROOT = Path(__file__).parents[2]
KINDS = ("Keeps", "Raises", "Hangs", "Vanishes", "HangsAtTheEnd", "CannotOpen")


@pytest.fixture(autouse=True)
def known_trackers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names are known here, and their module there."""
    for kind in KINDS:
        monkeypatch.setitem(SINKS._entries, kind.lower(), getattr(trackers_for_tests, kind))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))


def tracked(folder: Path, start_step: int = 0) -> RunInfo:
    return run_info(folder, id="w8v2v-cartpole-v1-ppo-s1", start_step=start_step)


def heard_by(folder: Path, name: str = "keeps") -> list[list[Any]]:
    text = (folder / "trackers" / name / "heard.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def group_of(name: str, folder: Path, upload_seconds: float = 300.0) -> tuple[SinkGroup, list[str], list[str]]:
    warnings: list[str] = []
    notes: list[str] = []
    tracker = TrackerSink(name, tracked(folder), notes.append, upload_seconds)
    return SinkGroup([JsonlSink(tracked(folder)), tracker], warnings.append), warnings, notes


def run_rows(group: SinkGroup, rows: int = 6, pause: float = 0.0) -> None:
    for step in range(1, rows + 1):
        group.write(100 * step, {"time/total_timesteps": 100.0 * step, "train/loss": 1.0 / step})
        time.sleep(pause)


def test_a_tracker_hears_everything_in_order_and_exactly(tmp_path: Path) -> None:
    group, warnings, notes = group_of("keeps", tmp_path)
    group.write(100, {"train/loss": 1 / 3, "train/entropy": float("nan")})
    group.report(100, [], {"histograms": {}})
    group.checkpoint(100, ["best", "last"], 0.25)
    group.video(100, tmp_path / "best.mp4")
    group.close("interrupted")
    heard = heard_by(tmp_path)
    assert [(do, step) for do, step, _ in heard] == [
        ("open", -1),
        ("write", 100),
        ("diagnostics", 100),
        ("checkpoint", 100),
        ("video", 100),
        ("close", 0),
    ]
    assert heard[0][2] == "ppo-w8v2v"  # {algo}-{run}
    assert heard[1][2]["train/loss"] == 1 / 3  # to the last bit
    assert heard[1][2]["train/entropy"] != heard[1][2]["train/entropy"]
    assert heard[3][2] == {"names": ["best", "last"], "seconds": 0.25}
    assert heard[-1][2] == "interrupted"
    assert "keeps: here I am" in notes
    assert warnings == []


def test_nothing_is_started_before_there_is_a_row(tmp_path: Path) -> None:
    group, warnings, notes = group_of("keeps", tmp_path)
    group.close("crashed")
    assert not (tmp_path / "trackers").exists()
    assert warnings == notes == []


@pytest.mark.parametrize(
    "name, reason",
    [
        ("raises", "raises failed: ConnectionError: the server is down."),
        ("vanishes", "vanishes failed: its process was killed by signal 9 (SIGKILL)."),
        ("hangs", "hangs did not finish within 1 s."),
        ("hangsattheend", "hangsattheend did not finish within 1 s."),
        ("cannotopen", "cannotopen failed: PermissionError: who are you?."),
    ],
)
def test_a_bad_tracker_costs_one_warning(name: str, reason: str, tmp_path: Path) -> None:
    group, warnings, _ = group_of(name, tmp_path, upload_seconds=1.0 if "hang" in name else 300.0)
    run_rows(group, 6)
    group.close()
    assert len(warnings) == 1
    assert warnings[0].startswith(reason)
    assert str(tmp_path / "metrics.jsonl") in warnings[0]  # where the numbers still are
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 6


def test_a_failure_is_reported_at_the_next_row_and_what_was_printed_is_kept(tmp_path: Path) -> None:
    group, warnings, _ = group_of("raises", tmp_path)
    run_rows(group, 3)
    for step in range(400, 100_000):  # rows go on until the news has come; a row is soon written
        group.write(step, {"train/loss": 0.0})
        if warnings:
            break
        time.sleep(0.01)
    assert len(warnings) == 1
    log = (tmp_path / "trackers" / "raises.log").read_text()
    assert "about to fail, loudly" in log
    assert "and has more to say" in log
    group.close()
    assert len(warnings) == 1


def test_a_hanging_tracker_never_blocks_and_its_queue_is_bounded(tmp_path: Path) -> None:
    """A pipe holds 64 kB, a process some more: of rows this long it is full long before the queue is."""
    group, warnings, _ = group_of("hangs", tmp_path)
    row = {f"train/{number}": float(number) for number in range(100)}
    sent = 0
    while not warnings and sent < 3 * MOST_BEHIND:
        sent += 1
        group.write(sent, row)
    assert warnings[0].startswith(f"hangs is {MOST_BEHIND:,} rows behind.")
    assert sent < 2 * MOST_BEHIND
    group.close()
    assert len(warnings) == 1


def test_the_process_of_a_failed_tracker_is_gone(tmp_path: Path) -> None:
    sink = TrackerSink("hangs", tracked(tmp_path), print, upload_seconds=0.5)
    group = SinkGroup([sink], lambda text: None)
    run_rows(group, 6)
    group.close()
    assert sink._worker is not None
    assert sink._worker.wait(60) == -signal.SIGKILL
    assert [
        thread.name for thread in threading.enumerate() if thread.name.startswith("hangs") and thread.is_alive()
    ] in (
        [],
        ["hangs listener"],  # on its last line
    )


def test_ctrl_c_ends_the_waiting_and_nothing_else(tmp_path: Path) -> None:
    def press(text: str) -> None:
        if text.startswith("waiting for"):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    warnings: list[str] = []
    group = SinkGroup([TrackerSink("hangs", tracked(tmp_path), press, upload_seconds=300.0)], warnings.append)
    run_rows(group, 6)
    group.close()
    assert len(warnings) == 1
    assert warnings[0].startswith("hangs was not waited for.")


def test_rows_are_not_repeated_by_a_run_that_goes_on_and_gaps_are_filled(tmp_path: Path) -> None:
    """The tracker has rows 100, 200, 300; the checkpoint is from 200; 250 was written to the file alone."""
    group, _, _ = group_of("keeps", tmp_path)
    run_rows(group, 3)
    group.close("killed")
    JsonlSink.truncate(tmp_path / "metrics.jsonl", 200)
    metrics = JsonlSink(tracked(tmp_path))
    later = SinkGroup([metrics, TrackerSink("keeps", tracked(tmp_path, start_step=200), lambda text: None)], print)
    later.write(300, {"train/loss": 1 / 3})
    later.write(400, {"train/loss": 1 / 4})
    later.close()
    assert [step for do, step, _ in heard_by(tmp_path) if do == "write"] == [100, 200, 300, 400]
    # A run that begins with another one's history: all of it is passed on, and then what comes.
    other = tmp_path / "other"
    other.mkdir()
    (other / "metrics.jsonl").write_bytes((tmp_path / "metrics.jsonl").read_bytes())
    group = SinkGroup([TrackerSink("keeps", tracked(other, start_step=400), lambda text: None)], print)
    group.write(500, {"train/loss": 0.2})
    group.close()
    assert [step for do, step, _ in heard_by(other) if do == "write"] == [100, 200, 300, 400, 500]


def test_a_tracker_outlives_a_killed_run_and_finishes(tmp_path: Path) -> None:
    code = f"""
import os, signal, time
from pathlib import Path
from gymnast.sinks.trackers.sink import TrackerSink
from gymnast.core.registry import SINKS
from tests.sinks_for_tests import run_info
from tests.trackers_for_tests import Keeps
SINKS.register("keeps", Keeps)
sink = TrackerSink("keeps", run_info(Path({str(tmp_path)!r}), id="w8v2v-x"), print)
sink.write(100, {{"train/loss": 1.0}})
file = Path({str(tmp_path)!r}) / "trackers" / "keeps" / "heard.jsonl"
while not (file.exists() and "write" in file.read_text()):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert run.returncode == -signal.SIGKILL
    wait_for(lambda: heard_by(tmp_path)[-1][0] == "close", "end in the tracker")
    assert heard_by(tmp_path)[-1] == ["close", 0, "killed"]


def test_a_missing_package_is_reported_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wandb", "trackio"):
        monkeypatch.setattr(SINKS.get(name), "package", f"no_such_{name}")
    with pytest.raises(UserError, match=r'^log.sinks: wandb is not installed. Run: pip install "gymnast-rl\[wandb\]"$'):
        require_sinks(["console", "jsonl", "wandb"])
    with pytest.raises(UserError, match=r"wandb, trackio are not installed.*gymnast-rl\[wandb,trackio\]"):
        require_sinks(["wandb", "trackio"])
    require_sinks(["console", "jsonl", "csv"])


def test_a_folder_that_wandb_left_behind_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leftover").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("leftover")
    assert is_installed("json")


def read_csv(path: Path) -> list[dict[str, str]]:
    import csv

    with open(path, newline="") as file:
        return [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(file)]


def test_csv_gets_columns_that_appear_later_and_no_row_twice(tmp_path: Path) -> None:
    history, path = tmp_path / "metrics.jsonl", tmp_path / "metrics.csv"
    rows = [{"train/loss": 0.1}, {"train/loss": 1 / 3, "eval/mean_reward": 9.0}, {"train/loss": float("nan")}]
    both = SinkGroup([JsonlSink(run_info(tmp_path)), CsvSink(run_info(tmp_path))], print)
    for number, row in enumerate(rows):
        both.write(100 * number, row)
    both.close()
    assert path.read_text().splitlines() == [
        "time/total_timesteps,train/loss,eval/mean_reward",
        "0,0.1,",
        "100,0.3333333333333333,9",
        "200,NaN,",
    ]
    # Stopped, and resumed from step 100: the row of 200 is made again.
    JsonlSink.truncate(history, 100)
    both = SinkGroup([JsonlSink(run_info(tmp_path)), CsvSink(run_info(tmp_path))], print)
    both.write(200, {"train/loss": 0.5, "solved": 1.0})
    both.close()
    assert [row["time/total_timesteps"] for row in read_csv(path)] == ["0", "100", "200"]
    assert read_csv(path)[-1] == {"time/total_timesteps": "200", "train/loss": "0.5", "solved": "1"}
