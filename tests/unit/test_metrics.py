"""The catalogue names every metric; meters, clock and files do their sums on paper."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.logger import KVWriter, Logger

from gymnast.core.errors import UserError
from gymnast.core.pulse import Pulse
from gymnast.metrics.catalogue import Metric, catalogue
from gymnast.metrics.clock import Clock
from gymnast.metrics.meter import Meter
from gymnast.sinks import SinkGroup
from gymnast.sinks.base import Sink
from gymnast.sinks.jsonl import JsonlSink, read_metrics
from tests.sinks_for_tests import run_info


@dataclass
class Episode:
    raw_return: float
    length: int
    terminated: bool = True
    frames: int = 0
    components: dict[str, float] = field(default_factory=dict)
    shaped_return: float | None = None
    task: str | None = None
    success: bool | None = None

    def __post_init__(self) -> None:
        self.frames = self.frames or self.length


@pytest.mark.parametrize("algo", [sb3.PPO, sb3.A2C])
def test_names_are_those_of_stable_baselines3(algo: Any) -> None:
    """Whoever plots its rows finds ours under the same names, but for its counts of iterations and its clock."""
    rows: list[dict[str, Any]] = []

    class Keep(KVWriter):
        def write(self, values: dict[str, Any], excluded: dict[str, Any], step: int = 0) -> None:
            rows.append(dict(values))

    size = {"batch_size": 201, "n_epochs": 1} if algo is sb3.PPO else {}
    model = algo("MlpPolicy", "Pendulum-v1", n_steps=201, **size)  # one step more than an episode: it has a return
    model.set_logger(Logger(None, [Keep()]))
    model.learn(402, log_interval=1)
    names = {name for row in rows for name in row}
    assert {"rollout/ep_rew_mean", "train/std", "train/explained_variance"} <= names
    own = {"time/iterations", "time/time_elapsed", "train/n_updates"}
    # A2C calls policy_loss what PPO calls policy_gradient_loss; here it is one name
    assert {name for name in names - own if name not in catalogue()} <= {"train/policy_loss"}


def test_every_line_of_the_catalogue_is_sound() -> None:
    for metric in catalogue():
        assert metric.meaning.endswith("."), metric.name
        lows = [bound for bound in (metric.low, metric.warn_low) if bound is not None]
        highs = [bound for bound in (metric.high, metric.warn_high) if bound is not None]
        assert sorted(lows) == lows, metric.name  # a warning comes inside of what is possible
        assert sorted(highs, reverse=True) == highs, metric.name
        assert max(lows, default=-math.inf) < min(highs, default=math.inf), metric.name


def test_an_unknown_metric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="Did you mean 'train/approx_kl'"):
        catalogue().get("train/aprox_kl")
    for act in (Meter().add, Meter().put):
        with pytest.raises(UserError, match="los"):
            act({"train/los": 1.0})
    assert "train/grad_norm/*" not in catalogue()._metrics
    assert "train/grad_norm/" not in catalogue()


def test_bounds() -> None:
    def outside(name: str, value: float) -> bool:
        return catalogue().get(name).out_of_bounds(value)

    healthy = {"train/explained_variance": 1.0, "train/clip_fraction": 0.0, "train/entropy": -3.0}
    assert not any(outside(name, value) for name, value in healthy.items())
    assert outside("train/clip_fraction", 1.1)
    assert outside("train/loss", math.nan)
    assert outside("train/explained_variance", 2.0)


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("time/total_timesteps", 1_234_567.0, "1,234,567"),
        ("rollout/ep_rew_mean", 475.126, "475.13"),
        ("rollout/ep_rew_mean", -1234.5, "-1,234.50"),
        ("train/learning_rate", 0.00025, "0.00025"),
        ("train/learning_rate", 3e-05, "3e-05"),
        ("train/clip_fraction", 0.1234, "12.3%"),
        ("time/elapsed", 75.9, "1:15"),
        ("time/elapsed", 36_000.0, "10:00:00"),
        ("solved", 1.0, "yes"),
        ("train/loss", math.nan, "nan"),
        ("train/loss", -math.inf, "-inf"),
    ],
)
def test_text(name: str, value: float, text: str) -> None:
    assert catalogue().get(name).text(value) == text


def test_families_share_a_line_and_keep_the_order() -> None:
    row = {"train/loss": 1.0, "train/grad_norm/critic": 2.0, "train/grad_norm/actor": 3.0, "time/fps": 4.0}
    assert list(catalogue().sort(row)) == ["time/fps", "train/loss", "train/grad_norm/actor", "train/grad_norm/critic"]
    orders = [metric.order for metric in catalogue()]
    assert orders == sorted(orders)
    assert all(isinstance(metric, Metric) for metric in catalogue())


def test_added_values_are_averaged_and_put_values_replaced() -> None:
    meter = Meter()
    meter.add({"train/loss": 1.0, "train/entropy": torch.tensor(0.5)})
    meter.add({"train/loss": torch.tensor(2.0, dtype=torch.float64, requires_grad=True)})
    meter.add({"train/loss": 6})
    meter.put({"train/learning_rate": 3e-4, "time/updates": 1})
    meter.put({"train/learning_rate": torch.tensor(1e-4, dtype=torch.float64)})
    # (1 + 2 + 6) / 3 = 3
    expected = {
        "time/updates": 1.0,
        "time/episodes": 0.0,
        "train/loss": 3.0,
        "train/entropy": 0.5,
        "train/learning_rate": 1e-4,
    }
    row = meter.row()
    assert row == expected
    assert list(row) == list(expected)  # catalogue order
    assert all(type(value) is float for value in row.values())
    assert meter.row() == {"time/episodes": 0.0}  # all of it was told


def test_the_training_score_waits_for_a_full_window() -> None:
    meter = Meter(window=3)
    meter.episodes([Episode(10.0, 5), Episode(20.0, 7)])
    assert meter.train_score() is None
    meter.episodes([Episode(60.0, 9)])
    assert meter.train_score() == 30.0


def test_episode_statistics() -> None:
    meter = Meter()
    meter.episodes([Episode(10.0, 5), Episode(20.0, 7, terminated=False), Episode(60.0, 9)])
    row = meter.row()
    assert row["rollout/ep_rew_mean"] == 30.0
    # variance (400 + 100 + 900) / 3
    assert row["rollout/ep_rew_std"] == pytest.approx(math.sqrt(1400 / 3))
    assert (row["rollout/ep_rew_min"], row["rollout/ep_rew_max"]) == (10.0, 60.0)
    assert row["rollout/ep_len_mean"] == 7.0
    assert row["rollout/truncated_fraction"] == pytest.approx(1 / 3)
    assert row["time/episodes"] == 3
    assert "rollout/ep_frames_mean" not in row  # it would only repeat the length
    meter.episodes([Episode(-100.0, 1, frames=4)])
    row = meter.row()
    assert row["rollout/ep_rew_mean"] == -2.5
    assert row["rollout/ep_rew_best"] == 30.0
    assert row["rollout/ep_frames_mean"] == (5 + 7 + 9 + 4) / 4


def test_only_the_last_episodes_count() -> None:
    meter = Meter(window=2)
    meter.episodes([Episode(1000.0, 1), Episode(1.0, 1, components={"speed": 4.0}), Episode(3.0, 1)])
    row = meter.row()
    assert row["rollout/ep_rew_mean"] == 2.0
    assert row["rollout/component/speed"] == 4.0  # mean over the episodes that have it
    assert row["time/episodes"] == 3


def test_a_loaded_meter_makes_the_same_rows() -> None:
    def first_half(meter: Meter) -> None:
        meter.episodes([Episode(0.1 * i, i, i % 3 == 0, components={"speed": i / 7}) for i in range(1, 150)])
        meter.row()
        meter.add({"train/loss": torch.tensor(0.1), "train/entropy": 0.3})
        meter.add({"train/loss": torch.tensor(0.7)})
        meter.put({"eval/mean_reward": math.nan, "solved": 0.0})

    def second_half(meter: Meter) -> dict[str, float]:
        meter.add({"train/loss": torch.tensor(0.2)})
        meter.episodes([Episode(5.0, 3)])
        return meter.row()

    straight, saved, resumed = Meter(), Meter(), Meter()
    first_half(straight)
    first_half(saved)
    resumed.load(json.loads(json.dumps(saved.state())))
    rows = [second_half(meter) for meter in (straight, resumed)]
    assert math.isnan(rows[0].pop("eval/mean_reward"))
    assert math.isnan(rows[1].pop("eval/mean_reward"))
    assert rows[0] == rows[1]
    assert resumed.episode_count == 150


class FakeTime:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("gymnast.metrics.clock.perf_counter", lambda: self.now)


def test_the_clock_charges_every_second_to_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTime(monkeypatch)
    clock = Clock()
    clock.elapsed = 50.0  # an earlier part of the run
    fake.now += 1000  # building networks is not training
    clock.start(env_steps=400, updates=4)
    for phase, seconds in [("env", 3.0), ("act", 1.0), ("env", 2.0), ("update", 2.0)]:
        fake.now += seconds
        clock.lap(phase)
    # env 5 of 8 seconds; 1200 - 400 steps in 8 seconds
    assert clock.report(1200, 8) == {
        "time/elapsed": 58.0,
        "time/fps": 100.0,
        "time/updates_per_second": 0.5,
        "time/share/env": 0.625,
        "time/share/act": 0.125,
        "time/share/update": 0.25,
    }
    fake.now += 2.0
    clock.lap("log")
    assert clock.report(1300, 9) == {
        "time/elapsed": 60.0,
        "time/fps": 50.0,
        "time/updates_per_second": 0.5,
        "time/share/log": 1.0,
    }


def test_a_lap_reads_the_clock_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are several for every step of the envs."""
    reads = itertools.count()
    monkeypatch.setattr("gymnast.metrics.clock.perf_counter", lambda: float(next(reads)))
    clock = Clock()
    before = next(reads)
    clock.lap("env")
    assert next(reads) == before + 2


def test_the_file_gives_back_every_number(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [
        {"time/total_timesteps": 2048.0, "train/loss": 0.1 + 0.2, "train/approx_kl": 1e-300},
        {"time/total_timesteps": 4096.0, "train/loss": math.inf, "train/std": -math.inf},
    ]
    sink = JsonlSink(run_info(tmp_path))
    for row in rows:
        sink.write(int(row["time/total_timesteps"]), row)
        assert read_metrics(path)[-1] == row  # flushed
    sink.write(5000, {"train/loss": math.nan})
    sink.close()
    *first, last = read_metrics(path)
    assert first == rows
    assert last["time/total_timesteps"] == 5000
    assert math.isnan(last["train/loss"])
    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # strict JSON
    assert read_metrics(tmp_path / "none.jsonl") == []


def test_resume_forgets_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    sink = JsonlSink(run_info(tmp_path))
    for step in (100, 200, 300):
        sink.write(step, {"train/loss": step / 7})
    sink.close()
    with open(path, "a") as file:
        file.write('{"time/total_timesteps":400,"train/lo')  # killed while writing
    assert [row["time/total_timesteps"] for row in read_metrics(path)] == [100, 200, 300]
    JsonlSink.truncate(path, 200)
    assert [row["time/total_timesteps"] for row in read_metrics(path)] == [100, 200]
    with open(path, "a") as file:
        file.write('{"half')
    sink = JsonlSink(run_info(tmp_path))  # without truncate, too, a new row stands on a line of its own
    sink.write(250, {"train/loss": 1.0})
    sink.close()
    assert [row["time/total_timesteps"] for row in read_metrics(path)] == [100, 200, 250]
    assert path.read_text().count("\n") == 3
    JsonlSink.truncate(tmp_path / "none.jsonl", 5)


class Recorder(Sink):
    def __init__(self, fails_after: int | None = None) -> None:
        self.rows: list[Any] = []
        self.closed = False
        self.fails_after = fails_after

    def write(self, step: int, row: dict[str, float]) -> None:
        if self.fails_after is not None and len(self.rows) >= self.fails_after:
            raise ConnectionError("tracker is down")
        self.rows.append((step, dict(row)))
        row.clear()  # a rude sink: the others must not notice

    def close(self) -> None:
        self.closed = True


def test_a_sink_that_fails_is_dropped_with_one_warning() -> None:
    good, bad = Recorder(), Recorder(fails_after=1)
    warnings: list[str] = []
    group = SinkGroup([bad, good], warnings.append)
    for step in range(5):
        group.write(step, {"train/loss": 1.0})
    group.notice("nobody listens, nothing happens")
    group.follow(Pulse())
    group.close()
    assert len(good.rows) == 5
    assert all(row == {"train/loss": 1.0} for _, row in good.rows)
    assert len(bad.rows) == 1
    assert warnings == ["Recorder failed and gets no more rows: ConnectionError: tracker is down"]
    assert good.closed
    assert not bad.closed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    warnings: list[str] = []
    sink = JsonlSink(run_info(tmp_path))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, sink._file.fileno())  # from here on its writes go there
    os.close(full)
    group = SinkGroup([sink], warnings.append)
    group.write(1, {"train/loss": 1.0})
    group.write(2, {"train/loss": 1.0})
    group.close()
    assert len(warnings) == 1
    assert "No space left" in warnings[0]


def test_rows_wait_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes half of the second line, then nothing, then all there is."""
    sink = JsonlSink(run_info(tmp_path))
    file, room = sink._file, [1000, 10, 0, 1000]

    class Disk:
        def write(self, data: bytes) -> int:
            left = room.pop(0)
            if not left:
                raise OSError(errno.ENOSPC, "No space left on device")
            return file.write(data[:left])

        def close(self) -> None:
            file.close()

    monkeypatch.setattr(sink, "_file", Disk())
    for step in (1, 2, 3, 4):
        sink.write(step, {"train/loss": step / 7})
    room.append(1000)
    sink.close()
    assert [row["train/loss"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1 / 7, 2 / 7, 3 / 7, 4 / 7]
    assert (tmp_path / "metrics.jsonl").read_text().count("\n") == 4
