"""heartbeat.json: what a run does at this moment, for a page in another process."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from gymnast.core.pulse import Pulse
from gymnast.runs.heartbeat import read_heartbeat
from gymnast.runs.references import Run, create_run
from gymnast.sinks import heartbeat as sink_module
from gymnast.sinks.base import RunInfo
from gymnast.sinks.heartbeat import HeartbeatSink, beat_of
from tests.processes import wait_for


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create_run(tmp_path, "", env="CartPole-v1", algo="ppo", seed=1)


def test_it_is_there_while_a_run_is_trained(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "EVERY", 0.01)
    pulse, sink = Pulse(), HeartbeatSink(RunInfo(run.path))
    sink.follow(pulse)
    beat, age = wait_for(lambda: read_heartbeat(run.heartbeat_path), "heartbeat")
    assert beat.phase == "starting"
    assert age < 60
    pulse.begin("collecting", 256, 8, step=4096)
    pulse.done = 39
    beat, _ = wait_for(lambda: (found := read_heartbeat(run.heartbeat_path)) and found[0].done and found, "count")
    assert (beat.phase, beat.done, beat.of, beat.env_steps) == ("collecting", 312, 2048, 4408)
    sink.close()
    os.utime(run.heartbeat_path, (0, 0))
    found = read_heartbeat(run.heartbeat_path)
    assert found is not None
    assert found[1] > 1e9  # nothing is written any more
    run.finish("finished")
    assert not run.heartbeat_path.exists()


def test_one_that_a_killed_process_left_behind_is_removed_at_the_next_start(run: Run) -> None:
    beat_of(Pulse()).write(run.heartbeat_path)
    run.start()
    assert not run.heartbeat_path.exists()


def test_an_evaluation_says_what_its_episodes_came_to() -> None:
    pulse = Pulse()
    pulse.start(0, 30.0, None)
    pulse.begin("verdict", 1000, step=4096, of="wind")
    pulse.activity = pulse.activity._replace(began=pulse.activity.began - 10)  # 4 episodes in 10 seconds
    pulse.done, pulse.steps, pulse.mean = 4, 380, -20.0
    beat = beat_of(pulse)
    assert (beat.phase, beat.where, beat.done, beat.of, beat.steps) == ("verdict", "wind", 4, 1000, 380)
    assert (beat.mean, beat.env_steps) == (-20.0, 4096)
    assert beat.left == pytest.approx(996 * 10 / 4, rel=0.1)
    assert beat.elapsed >= 30
    assert not beat.probably
    pulse.enough = 204  # the first episodes say what probably decides
    assert (beat_of(pulse).of, beat_of(pulse).probably) == (204, True)
    assert beat_of(pulse).left == pytest.approx(200 * 10 / 4, rel=0.1)
    pulse.begin("score", 100)  # counts nothing of what was before
    assert (beat_of(pulse).mean, beat_of(pulse).left, beat_of(pulse).where) == (None, None, "")


def test_a_mean_that_is_no_number_is_written_and_read(run: Run) -> None:
    pulse = Pulse()
    pulse.mean = math.nan
    beat_of(pulse).write(run.heartbeat_path)
    found = read_heartbeat(run.heartbeat_path)
    assert found is not None
    assert math.isnan(found[0].mean or 0.0)


@pytest.mark.parametrize("text", ["", "[]", '{"phase": 5}', '{"phase": "collecting", "done": -1}', None])
def test_a_damaged_one_is_none(run: Run, text: str | None) -> None:
    """It may be anybody's file: nothing depends on it."""
    if text is not None:
        run.heartbeat_path.write_text(text)
    assert read_heartbeat(run.heartbeat_path) is None


def test_nothing_is_written_where_a_link_leads(run: Run, tmp_path: Path) -> None:
    """The folder of a run that goes on may come from somebody else."""
    other = tmp_path / "other"
    other.write_text("mine")
    (run.path / ".heartbeat.json.tmp").symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        beat_of(Pulse()).write(run.heartbeat_path)
    (run.path / ".heartbeat.json.tmp").unlink()
    run.heartbeat_path.symlink_to(other)
    beat_of(Pulse()).write(run.heartbeat_path)  # takes the place of the link
    assert other.read_text() == "mine"
